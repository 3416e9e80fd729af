//! Raising an exception in another thread, and taking it back.
//!
//! Python offers this to C only, and `PyO3` has no safe way to it; `ctypes` would need a library that not every Python has,
//! and memory in every worker. This is one of the places for unsafe code.
#![allow(unsafe_code, reason = "PyO3 has no safe way to PyThreadState_SetAsyncExc")]

use std::ffi::c_long;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyType;

/// Has `class` raised in the thread that Python calls `thread`, the next time it runs Python code.
pub(super) fn raise_in(thread: c_long, class: &Bound<'_, PyType>) {
    // SAFETY: the interpreter is attached, as `class` proves, and `class` is an exception type that lives; the call takes
    // its own reference. An unknown thread changes nothing.
    unsafe { ffi::PyThreadState_SetAsyncExc(thread, class.as_ptr()) };
}

/// Takes back what [`raise_in`] has set for a thread and has not been raised yet.
pub(super) fn take_back(_: Python<'_>, thread: c_long) {
    // SAFETY: the interpreter is attached, as the token proves; null is the documented way to clear.
    unsafe { ffi::PyThreadState_SetAsyncExc(thread, std::ptr::null_mut()) };
}
