//! The other side of the socket: one request, one answer.

use std::io;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Read;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::Answer;
use super::Wish;

/// No answer is longer: that of a thousand workers has a few hundred kilobytes.
const ANSWER_MAX: u64 = 16 * 1024 * 1024;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClientError {
    #[error("no instance listens at {path}: {error}")]
    Connect { path: String, error: io::Error },
    #[error("the instance did not answer: {0}")]
    Io(#[from] io::Error),
    #[error("the instance has ended")]
    Ended,
    #[error("the answer cannot be understood: {0}")]
    Answer(#[from] serde_json::Error),
}

/// A connection to an instance.
#[derive(Debug)]
pub(super) struct Client(BufReader<UnixStream>);

impl Client {
    pub(super) fn connect(path: &Path) -> Result<Client, ClientError> {
        let stream = UnixStream::connect(path)
            .map_err(|error| ClientError::Connect { path: path.display().to_string(), error })?;
        Ok(Client(BufReader::new(stream)))
    }

    /// Asks, and waits for the answer, at most so long.
    pub(super) fn ask(
        &mut self,
        wish: &Wish,
        limit: Option<Duration>,
    ) -> Result<Answer, ClientError> {
        self.0.get_ref().set_read_timeout(limit)?;
        let mut line = serde_json::to_vec(wish)?;
        line.push(b'\n');
        let mut answer = Vec::new();
        let exchanged = self
            .0
            .get_mut()
            .write_all(&line)
            .and_then(|()| (&mut self.0).take(ANSWER_MAX).read_until(b'\n', &mut answer));
        match exchanged.map_err(|error| (error.kind(), error)) {
            Err((io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset, _)) => {
                return Err(ClientError::Ended);
            }
            Err((_, error)) => return Err(error.into()),
            Ok(_) => {}
        }
        if answer.is_empty() {
            return Err(ClientError::Ended);
        }
        Ok(serde_json::from_slice(&answer)?)
    }

    /// Waits until the instance closes the connection, which it does when it ends.
    pub(super) fn wait_for_end(&mut self) -> Result<(), ClientError> {
        self.0.get_ref().set_read_timeout(None)?;
        io::copy(&mut self.0, &mut io::sink())?;
        Ok(())
    }
}
