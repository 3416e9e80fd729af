//! One connection of somebody who asks: its bytes in and out, cut into requests and answers. It never waits.

use std::fmt;
use std::fs::File;
use std::io;
use std::io::Read;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::fd::BorrowedFd;
use std::os::fd::OwnedFd;
use std::time::Instant;

use super::Answer;
use super::Report;
use super::Wish;
use super::ask::Said;
use super::metrics;
use crate::telemetry::metrics as http;

/// The longest request, be it on the control socket, where the longest that means anything has some fifty bytes.
const LONGEST: usize = http::LONGEST_HEAD;

/// In which language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaks {
    /// Lines of JSON.
    Control,
    /// HTTP, for metrics.
    Http,
}

/// What comes next on a connection.
#[derive(Debug)]
pub(super) enum Next {
    Nothing,
    Wish(Wish),
    Answered,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Client {
    stream: File,
    pub(super) speaks: Speaks,
    /// Who it is, for the log.
    pub(super) asker: String,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Only the head of an answer is wanted.
    head_only: bool,
    /// An answer is awaited.
    pub(super) asked: bool,
    /// Nothing more is read; it goes when its answer has gone out.
    pub(super) last_words: bool,
    /// When something last came or went.
    pub(super) active: Instant,
}

impl Client {
    /// Of a socket that does not wait.
    pub(super) fn new(
        stream: OwnedFd,
        speaks: Speaks,
        asker: impl fmt::Display,
        now: Instant,
    ) -> Client {
        Client {
            stream: File::from(stream),
            speaks,
            asker: asker.to_string(),
            input: Vec::new(),
            output: Vec::new(),
            head_only: false,
            asked: false,
            last_words: false,
            active: now,
        }
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Whether it is to be read. One thing after the other: while an answer is under way, it is not.
    pub(super) fn reads(&self) -> bool {
        !self.asked && !self.last_words && self.output.is_empty() && self.input.len() < LONGEST
    }

    /// Whether it has not taken its answer yet.
    pub(super) fn writes(&self) -> bool {
        !self.output.is_empty()
    }

    /// False at the end of what comes.
    pub(super) fn read(&mut self, now: Instant) -> io::Result<bool> {
        let mut piece = [0; 512];
        while self.input.len() < LONGEST {
            match self.stream.read(&mut piece) {
                Ok(0) => return Ok(false),
                Ok(got) => {
                    self.active = now;
                    self.input.extend_from_slice(&piece[..got]);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// The next request, if there is a whole one and none under way. What is none is answered at once.
    pub(super) fn next(&mut self, now: Instant) -> Next {
        if self.asked || self.writes() {
            return Next::Nothing;
        }
        let wish = match self.speaks {
            Speaks::Control => self.next_line(),
            Speaks::Http => self.next_head(),
        };
        match wish {
            None => Next::Nothing,
            Some(Ok(wish)) => Next::Wish(wish),
            Some(Err(said)) => {
                self.hear(said, now);
                Next::Answered
            }
        }
    }

    fn next_line(&mut self) -> Option<Result<Wish, Said>> {
        let Some(end) = memchr::memchr(b'\n', &self.input) else { return self.too_long() };
        let line: Vec<u8> = self.input.drain(..=end).collect();
        let wish = serde_json::from_slice(&line);
        Some(wish.map_err(|error| Said::Refused(format!("no request: {error}"))))
    }

    fn next_head(&mut self) -> Option<Result<Wish, Said>> {
        let Some(end) = memchr::memmem::find(&self.input, b"\r\n\r\n") else {
            return self.too_long();
        };
        let head: Vec<u8> = self.input.drain(..end).collect();
        // One request is all that a connection has.
        self.input.clear();
        self.last_words = true;
        let request = http::Request::parse(&head);
        self.head_only = request.head_only;
        Some(match request.page {
            Ok(()) => Ok(Wish::Status {}),
            Err(status) => Err(Said::Http(status)),
        })
    }

    fn too_long(&mut self) -> Option<Result<Wish, Said>> {
        if self.input.len() < LONGEST || self.last_words {
            return None;
        }
        self.last_words = true;
        self.input.clear();
        Some(Err(Said::Refused("the request is too long".to_owned())))
    }

    /// Has something to tell it.
    pub(super) fn hear(&mut self, said: Said, now: Instant) {
        self.asked = false;
        self.active = now;
        match self.speaks {
            Speaks::Control => {
                match serde_json::to_writer(&mut self.output, &answer(said)) {
                    Ok(()) => self.output.push(b'\n'),
                    // Numbers and texts always can be; and if not, the client hears no half answer.
                    Err(_) => self.last_words = true,
                }
            }
            Speaks::Http => {
                self.last_words = true;
                let (status, page) = match said {
                    Said::Status(instance, view) => (http::OK, metrics::text(&instance, &view)),
                    Said::Http(status) => (status, format!("{status}; see /metrics\n")),
                    Said::Refused(why) => (http::UNAVAILABLE, why + "\n"),
                    Said::Done(text) => (http::OK, text),
                };
                http::put_response(&mut self.output, status, &page, self.head_only);
            }
        }
    }

    /// Writes what it takes.
    pub(super) fn flush(&mut self, now: Instant) -> io::Result<()> {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(written) => {
                    self.active = now;
                    self.output.drain(..written);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn answer(said: Said) -> Answer {
    match said {
        Said::Done(text) => Answer { ok: true, text: Some(text), ..Answer::default() },
        Said::Refused(why) => Answer { ok: false, error: Some(why), ..Answer::default() },
        Said::Http(status) => {
            Answer { ok: false, error: Some(status.to_owned()), ..Answer::default() }
        }
        Said::Status(instance, view) => {
            let report = Box::new(Report::new(&instance, &view));
            Answer { ok: true, status: Some(report), ..Answer::default() }
        }
    }
}
