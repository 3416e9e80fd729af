//! A large message on its way out: handed to libzmq without a copy, and counted until libzmq has let it go.
//!
//! libzmq's high-water mark counts messages, and a thousand of some megabytes are too many; so bytes are counted here. The
//! safe crate can neither tell when a message has been written nor give it back when it could not be taken. This is one of
//! the few places for unsafe code.
#![allow(unsafe_code, reason = "zmq_msg_init_data and zmq_msg_send through zmq-sys")]

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

/// What libzmq holds while a parcel is on its way.
struct Parcel {
    bytes: Vec<u8>,
    len: usize,
    under_way: Arc<AtomicUsize>,
}

impl Drop for Parcel {
    fn drop(&mut self) {
        self.under_way.fetch_sub(self.len, Ordering::Relaxed);
    }
}

/// Called by libzmq, in any of its threads, when it needs the bytes no more.
unsafe extern "C" fn release(_data: *mut c_void, hint: *mut c_void) {
    // SAFETY: `hint` is what `send` made of a box, and libzmq calls this once for each message.
    drop(unsafe { Box::from_raw(hint.cast::<Parcel>()) });
}

/// Sends `bytes` without waiting, and counts them in `under_way` until they are written or lost with their connection.
///
/// # Errors
/// As `zmq_msg_send(3)`; the bytes come back with the reason.
pub(super) fn send(
    socket: &mut zmq::Socket,
    bytes: Vec<u8>,
    under_way: &Arc<AtomicUsize>,
) -> Result<(), (zmq::Error, Vec<u8>)> {
    let len = bytes.len();
    under_way.fetch_add(len, Ordering::Relaxed);
    let parcel = Box::into_raw(Box::new(Parcel { bytes, len, under_way: Arc::clone(under_way) }));
    let mut message = zmq_sys::zmq_msg_t::default();
    // SAFETY: the bytes stay where they are until `release` is called: nothing else has the box. `message` is initialised
    // by the call, which fails only without memory, and then takes neither of them over.
    let made = unsafe {
        zmq_sys::zmq_msg_init_data(
            &raw mut message,
            (*parcel).bytes.as_mut_ptr().cast(),
            len,
            Some(release),
            parcel.cast(),
        )
    };
    if made != 0 {
        // SAFETY: libzmq has not taken the box.
        let mut parcel = unsafe { Box::from_raw(parcel) };
        return Err((zmq::Error::ENOMEM, std::mem::take(&mut parcel.bytes)));
    }
    // SAFETY: a live socket, borrowed mutably, in the thread that owns it; a message that was initialised above.
    if unsafe { zmq_sys::zmq_msg_send(&raw mut message, socket.as_mut_ptr(), zmq::DONTWAIT) } >= 0 {
        // It is empty now, and needs no closing (zmq_msg_send(3)).
        return Ok(());
    }
    let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
    // SAFETY: the message is still ours, and so are its bytes: nobody else has the box, and `release`, which the closing
    // calls, finds them taken away.
    let bytes = unsafe {
        let bytes = std::mem::take(&mut (*parcel).bytes);
        zmq_sys::zmq_msg_close(&raw mut message);
        bytes
    };
    Err((zmq::Error::from_raw(errno), bytes))
}
