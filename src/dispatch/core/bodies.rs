//! Bodies that come in other ways than in the message of their request, and how large any body may be.

use std::time::Instant;

use super::Core;
use super::Key;
use crate::config::UploadTrust;
use crate::dispatch::connection::Waiting;
use crate::dispatch::refuse::Refusal;
use crate::dispatch::upload_file::Flaw;
use crate::dispatch::upload_file::Upload;
use crate::proto::ident::SenderUuid;
use crate::telemetry;
use crate::transport::Message;

/// What a front end says of a body that it begins to write to a file.
pub(super) struct Beginning {
    pub(super) sender: SenderUuid,
    pub(super) file: Vec<u8>,
    pub(super) announced: Option<u64>,
    pub(super) credits: Option<u64>,
}

impl Core {
    /// Whether a body is larger than any may be.
    pub(super) fn is_too_large(&self, bytes: u64) -> bool {
        self.uploads.max_body.is_some_and(|most| bytes > most)
    }

    /// Whether upload files are believed in by where they lie.
    pub(super) fn trusts_directory(&self) -> bool {
        self.uploads.upload_trust == UploadTrust::Directory
    }

    /// A front end begins to write a body to a file. What we answer now ends the upload (protocol section 6.3).
    pub(super) fn body_begins(
        &mut self,
        key: Key,
        begins: Beginning,
        message: Message,
        now: Instant,
    ) {
        let Beginning { sender, file, announced, credits } = begins;
        let mut upload = Upload::new(&self.upload_place, file);
        let refuse = if announced.is_some_and(|bytes| self.is_too_large(bytes)) {
            // Removed here and now: it may be complete before the front end hears of the refusal.
            let _ = upload.look(&self.upload_place);
            Some(413)
        } else if self.trusts_directory() {
            // The end, and so the file, may be another instance's.
            return;
        } else {
            match upload.look(&self.upload_place) {
                // Already gone again, with its client, if the chroot is right; else its end will tell.
                Ok(()) | Err(Flaw::Missing(_)) => None,
                Err(flaw) => {
                    self.flawed(&upload, &flaw, now);
                    Some(500)
                }
            }
        };
        if self.is_closed(key) {
            return;
        }
        let connection = self.connection(key, sender, credits, now);
        let Some(status) = refuse else {
            connection.uploading = Some(upload).filter(|_| !connection.closing);
            return;
        };
        self.counters.requests += 1;
        let refuse = Some(Refusal::Page(status));
        self.enqueue(key, Waiting::new(message, now, None, refuse), now);
    }

    /// The body of a request is said to be complete in a file. Returns the file, or why the request is not run.
    pub(super) fn body_complete(
        &mut self,
        key: Key,
        file: Vec<u8>,
        now: Instant,
    ) -> Result<Option<Upload>, Refusal> {
        // Between beginning and end of a body there can be only what was sent before it.
        let begun = self.connections.get_mut(&key).and_then(|c| c.uploading.take());
        let mut upload = match (self.uploads.upload_trust, begun) {
            (UploadTrust::Directory, _) => Upload::new(&self.upload_place, file),
            (UploadTrust::Instance, Some(begun)) if begun.is(&file) => begun,
            (UploadTrust::Instance, _) => {
                if self.connections.get(&key).is_some_and(|c| !c.will_close()) {
                    self.strange_upload(&file, now);
                }
                return Ok(None);
            }
        };
        if let Err(flaw) = upload.look(&self.upload_place) {
            self.flawed(&upload, &flaw, now);
            return Err(Refusal::Page(500));
        }
        if self.is_too_large(upload.size()) { Err(Refusal::Page(413)) } else { Ok(Some(upload)) }
    }

    /// The front end writes what nobody will read.
    pub(super) fn body_spoilt(&mut self, file: Vec<u8>) {
        let mut upload = Upload::new(&self.upload_place, file);
        // What was found goes away now; anything else is not ours.
        let _ = upload.look(&self.upload_place);
    }

    fn flawed(&mut self, upload: &Upload, flaw: &Flaw, now: Instant) {
        if let Some(held) = self.malformed_lines.allow(now) {
            telemetry::error!(
                "upload file \"{}\" is not used: {flaw}{held}",
                telemetry::Escaped(upload.called()),
            );
        }
    }

    /// The end of an upload whose beginning we have not seen: a forgery, or another instance has seen it. The request goes
    /// on without the file, and will be refused for its missing body.
    fn strange_upload(&mut self, file: &[u8], now: Instant) {
        if let Some(held) = self.malformed_lines.allow(now) {
            telemetry::warn!(
                "upload to \"{}\" is complete, but it has not begun here: not touched. If several instances share this \
                 handler, give it one instance with more workers, or set --upload-trust directory{held}",
                telemetry::Escaped(file),
            );
        }
    }
}
