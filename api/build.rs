//! The web app is embedded if it was built before: a change of it is then a change of this crate.

use std::path::Path;

const BUILT: &str = "../web/dist";
const SOURCES: &str = "../web";

fn main() {
    // A path that does not exist would make Cargo compile this crate again each time.
    let watched = if Path::new(BUILT).exists() { BUILT } else { SOURCES };
    println!("cargo:rerun-if-changed={watched}");
}
