//! A worker against an instance played by the test.
