//! The web app is embedded where it was built before: then a change of it is a change of this crate.

fn main() {
    println!("cargo:rerun-if-changed=../web/dist");
}
