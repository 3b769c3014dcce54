//! Rebuilds when a migration is added: they are embedded, and cargo does not watch that folder itself.
fn main() {
    println!("cargo:rerun-if-changed=../migrations");
}
