//! Bodies that are larger than a message: as files that both sides can reach, or as a stream (protocol section 6).

use std::fs::File;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use super::conn::Conn;
use super::record::Outcome;
use super::request::Known;
use super::respond::Answer;
use crate::config::UploadWay;
use crate::front::core::Placed;
use crate::front::http1::Refusal;
use crate::front::message;
use crate::front::message::UPLOAD_DONE;
use crate::front::message::UPLOAD_START;
use crate::http::dechunk::Chunk;
use crate::http::dechunk::Dechunk;

/// Most bytes of one part of a stream.
const PART_MAX: u64 = 256 * 1024;

/// A body that is under way.
#[derive(Debug)]
pub(super) struct Upload {
    left: Left,
    /// Bytes taken so far.
    taken: u64,
    most: Option<u64>,
    done: bool,
    /// The handler has asked for more than it was sent at first.
    granted: bool,
    to: To,
}

/// What is still to come.
#[derive(Debug)]
enum Left {
    Bytes(u64),
    Chunks(Dechunk),
}

#[derive(Debug)]
enum To {
    File(Spool),
    /// A stream, with the bytes that may be sent.
    Stream(u64),
}

/// A file that is removed unless its handler has been told of it.
#[derive(Debug)]
struct Spool {
    file: File,
    path: PathBuf,
    text: String,
    kept: bool,
}

impl Drop for Spool {
    fn drop(&mut self) {
        if !self.kept {
            // It may be gone already: a handler that has answered may have removed it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Upload {
    /// Whether all of it has been handed on.
    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    /// The request is over. A file that no handler answered for is removed.
    pub(super) fn end(mut self, answered: bool) {
        if let To::File(spool) = &mut self.to {
            spool.kept &= answered;
        }
    }

    /// Whether it is a stream of which the handler has got the first part alone.
    pub(super) fn was_not_asked_for(&self) -> bool {
        !self.granted && !self.done && matches!(self.to, To::Stream(_))
    }

    /// Whether more of it may be read from the client now.
    pub(super) fn wants(&self) -> bool {
        !self.done && !matches!(self.to, To::Stream(0))
    }

    /// The handler takes so many more bytes.
    pub(super) fn grant(&mut self, bytes: u64) {
        if let To::Stream(credits) = &mut self.to {
            *credits = credits.saturating_add(bytes);
            self.granted |= bytes > 0;
        }
    }

    /// Takes from `input` what may be taken now, into `part`. True if that was the last of the body.
    fn take(&mut self, input: &mut Vec<u8>, part: &mut Vec<u8>) -> Result<bool, Refusal> {
        let room = match self.to {
            To::File(_) => u64::MAX,
            To::Stream(credits) => credits.min(PART_MAX),
        };
        let (taken, last) = match &mut self.left {
            Left::Bytes(left) => {
                let now = (input.len() as u64).min(*left).min(room);
                *left -= now;
                let now = usize::try_from(now).unwrap_or(input.len());
                part.extend_from_slice(&input[..now]);
                (now, *left == 0)
            }
            Left::Chunks(chunks) => {
                let mut rest = &input[..];
                let mut last = false;
                // One that is begun is taken whole, as Mongrel2 does.
                while (part.len() as u64) < room {
                    match chunks.next(&mut rest).map_err(|_| Refusal::Bad)? {
                        Chunk::Data(data) => part.extend_from_slice(data),
                        Chunk::More => break,
                        Chunk::End => {
                            last = true;
                            break;
                        }
                    }
                }
                (input.len() - rest.len(), last)
            }
        };
        input.drain(..taken);
        self.taken += part.len() as u64;
        if self.most.is_some_and(|most| self.taken > most) {
            return Err(Refusal::TooLarge);
        }
        Ok(last)
    }
}

impl Conn {
    /// Serves a request whose body does not fit a message. `first` is what was read of it; the rest has a known length, or
    /// comes in chunks.
    pub(super) async fn upload(
        &mut self,
        known: &Known<'_>,
        length: Option<u64>,
        mut first: Vec<u8>,
        chunks: Option<Dechunk>,
    ) -> Answer {
        let clients = &self.config.clients;
        let most = clients.body_limit;
        let left = match (length, chunks) {
            (Some(length), _) => {
                // Less than all of it: what fits a message is no upload.
                let most = clients.inline_limit.min(length);
                let now = self.input.len().min(usize::try_from(most).unwrap_or(usize::MAX));
                first.extend(self.input.drain(..now));
                Left::Bytes(length - now as u64)
            }
            (None, chunks) => Left::Chunks(chunks.unwrap_or_default()),
        };
        let way = clients.upload.clone();
        let taken = first.len() as u64;
        let (to, placed) = match way {
            UploadWay::Refuse => {
                return self.no_body(super::request::NoBody::Refused(Refusal::TooLarge));
            }
            UploadWay::Files(directory) => match self.spool(&directory, &first) {
                Err(error) => {
                    let at = directory.display();
                    self.shared.complain(|| format!("upload directory {at}: {error}"));
                    return self.error(500, Outcome::Refused);
                }
                Ok(spool) => {
                    let text = spool.text.clone();
                    let start = [(UPLOAD_START, text.as_bytes())];
                    (To::File(spool), self.submit(known, b"", &start, &[], &[], true))
                }
            },
            UploadWay::Stream => {
                let keys = [("UPLOAD_STREAM", &b"0"[..])];
                (To::Stream(0), self.submit(known, &first, &[], &[], &keys, true))
            }
        };
        if placed == Placed::Full {
            drop(to);
            return self.error(503, Outcome::NoHandler);
        }
        self.allow_body(known);
        let upload = Upload { left, taken, most, done: false, granted: false, to };
        self.respond(known, Some(upload)).await
    }

    /// Makes a file for a body, with what is there of it.
    fn spool(&self, directory: &std::path::Path, first: &[u8]) -> std::io::Result<Spool> {
        // Nobody else's file can be met: the process and the connection's id are in its name, and it must be new. At its end
        // are six digits or more, as handlers expect it of Mongrel2's, which makes them by mkstemp.
        let (process, conn) = (std::process::id(), self.client.id.get());
        let name = format!("upload.{process}.{conn}.{:06}", self.requests);
        let path = directory.join(name);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let text = path.display().to_string();
        let mut spool = Spool { file, path, text, kept: false };
        spool.file.write_all(first)?;
        Ok(spool)
    }

    /// Hands on what can be of a body. An error is the status that the client is told, or that it is gone.
    pub(super) fn feed(
        &mut self,
        known: &Known<'_>,
        upload: &mut Upload,
    ) -> Result<(), Option<u16>> {
        while upload.wants() {
            let offset = upload.taken;
            let mut part = Vec::new();
            let taken = upload.take(&mut self.input, &mut part);
            let last = taken.map_err(|refusal| Some(refusal.status()))?;
            if part.is_empty() && !last {
                break;
            }
            upload.done = last;
            let conn = self.client.id.get();
            match &mut upload.to {
                To::Stream(credits) => {
                    *credits = credits.saturating_sub(part.len() as u64);
                    let shared = &self.shared;
                    shared.with_frame(|frame| {
                        let path = known.target.path;
                        message::put_part(frame, shared.address(conn), path, offset, last, &part);
                        shared.with_core(|core| core.follow(conn, frame, last));
                    });
                }
                To::File(spool) => {
                    if let Err(error) = spool.file.write_all(&part) {
                        self.shared.complain(|| format!("upload file: {error}"));
                        return Err(Some(500));
                    }
                    if last {
                        spool.kept = true;
                        let text = spool.text.clone();
                        self.finish_file(known, &text);
                    }
                }
            }
        }
        Ok(())
    }

    /// Says that the file is complete.
    fn finish_file(&mut self, known: &Known<'_>, path: &str) {
        let fields = [(UPLOAD_START, path.as_bytes()), (UPLOAD_DONE, path.as_bytes())];
        let conn = self.client.id.get();
        let shared = std::rc::Rc::clone(&self.shared);
        self.with_message(known, b"", &fields, &[], &[], |frame| {
            shared.with_core(|core| core.follow(conn, frame, true));
        });
    }
}
