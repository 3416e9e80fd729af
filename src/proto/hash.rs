//! A quick hash for ids and tickets: a front end and an instance count them up, and no client can choose them so that they
//! collide. For nothing that a client says.

use std::hash::BuildHasherDefault;
use std::hash::Hasher;

/// Builds the hasher.
pub type Quick = BuildHasherDefault<Mix>;

/// One multiplication for a number.
#[derive(Debug, Default, Clone, Copy)]
pub struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        // The table looks at the upper bits, and takes its place from the lower ones.
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(u64::try_from(number).unwrap_or(u64::MAX));
    }
}
