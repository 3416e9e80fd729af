//! The one socket option that the `zmq` crate does not offer: `ZMQ_XPUB_NODROP`.
//!
//! With it, a publication at the high-water mark fails with `EAGAIN` instead of being dropped without a word
//! (`zmq_setsockopt(3)`). This is one of the few places for unsafe code.
#![allow(unsafe_code, reason = "zmq_setsockopt through zmq-sys")]

/// Makes an XPUB refuse a message at its high-water mark instead of dropping it.
pub(super) fn set_xpub_nodrop(socket: &mut zmq::Socket) -> Result<(), zmq::Error> {
    let on: std::ffi::c_int = 1;
    let option = i32::try_from(zmq_sys::ZMQ_XPUB_NODROP).map_err(|_| zmq::Error::EINVAL)?;
    // SAFETY: the pointer is that of a live socket, borrowed mutably for the call, in the thread that owns it; the value
    // is an `int` of the given size, which libzmq copies.
    let result = unsafe {
        zmq_sys::zmq_setsockopt(
            socket.as_mut_ptr(),
            option,
            (&raw const on).cast(),
            size_of_val(&on),
        )
    };
    if result == 0 {
        return Ok(());
    }
    let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
    Err(zmq::Error::from_raw(errno))
}
