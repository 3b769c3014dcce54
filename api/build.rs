//! The web app is embedded if it was built before: a change of it is then a change of this crate.

fn main() {
    println!("cargo:rerun-if-changed=../web/dist");
}
