//! The worker process as `lurcher.worker` drives it: open, load, say so, run slots, finish.

use std::os::fd::RawFd;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use crate::config::WorkerSettings;
use crate::worker as rust;

use super::slot;
use super::watch;

/// One worker process.
#[pyclass(frozen, module = "lurcher._native")]
pub(super) struct Worker {
    worker: rust::Worker,
    settings: WorkerSettings,
}

#[pymethods]
impl Worker {
    /// Takes over the two descriptors and waits for the settings. Starts the log.
    #[new]
    fn new(py: Python<'_>, bridge_fd: RawFd, board_fd: RawFd) -> PyResult<Worker> {
        let (worker, settings) = py
            .detach(|| rust::Worker::open(bridge_fd, board_fd))
            .map_err(|error| PyOSError::new_err(error.to_string()))?;
        let role = format!("worker-{}", settings.worker);
        crate::telemetry::init(&role, settings.log_level, settings.log_format);
        crate::system::set_title(
            &format!("lurcher: worker-{} ({})", settings.worker, settings.wsgi_app),
            &format!("lurcher-w{}", settings.worker),
        );
        Ok(Worker { worker, settings })
    }

    /// What to load.
    #[getter]
    fn wsgi_app(&self) -> &str {
        &self.settings.wsgi_app
    }

    /// Where to load it from.
    #[getter]
    fn app_path(&self) -> std::path::PathBuf {
        self.settings.app_path.clone()
    }

    /// How many slots to run.
    #[getter]
    fn threads(&self) -> u32 {
        self.settings.threads
    }

    /// Whether the application is to be wrapped in the reference checker.
    #[getter]
    fn lint(&self) -> bool {
        self.settings.lint
    }

    /// What to call before the first request.
    #[getter]
    fn on_worker_start(&self) -> Option<&str> {
        self.settings.on_worker_start.as_deref()
    }

    /// What to call after the last request.
    #[getter]
    fn on_worker_stop(&self) -> Option<&str> {
        self.settings.on_worker_stop.as_deref()
    }

    /// Writes an error of several lines into the log.
    #[allow(clippy::unused_self, reason = "without a worker there is no log")]
    fn log_error(&self, py: Python<'_>, title: &str, text: &str) {
        py.detach(|| crate::telemetry::error_block(title, text));
    }

    /// Tells the instance that the application is loaded.
    fn ready(&self, py: Python<'_>) {
        py.detach(|| self.worker.ready());
    }

    /// Tells the instance that the application cannot be loaded, and why.
    fn load_failed(&self, py: Python<'_>, traceback: &str) {
        py.detach(|| self.worker.load_failed(traceback));
    }

    /// Asks the instance to be drained. Further calls do nothing.
    fn leave(&self, py: Python<'_>) {
        py.detach(|| self.worker.leave());
    }

    /// For a process that the application has forked: it takes no requests and answers none.
    fn abandon(&self) {
        self.worker.abandon();
    }

    /// Serves as slot `number` (from 0) until there are no more requests.
    fn run_slot(
        &self,
        py: Python<'_>,
        number: usize,
        application: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        slot::serve(py, &self.worker, &self.settings, number, application)
    }

    /// Answers what the instance asks about the slots, until `end_watch` is called.
    fn watch(&self, py: Python<'_>) {
        watch::run(py, &self.worker);
    }

    /// Ends `watch`.
    fn end_watch(&self) {
        self.worker.end_asks();
    }

    /// Writes out what is left, when all slots have ended.
    fn finish(&self, py: Python<'_>) {
        py.detach(|| self.worker.finish());
    }
}
