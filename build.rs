//! Gives test and bench binaries the right libpython at run time (rpath). The extension module that maturin builds
//! is not touched by it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(feature = "python")]
    pyo3_build_config::add_libpython_rpath_link_args();
}
