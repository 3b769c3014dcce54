//! Builds again when a migration is added: they are embedded, and cargo does not look into that folder by itself.
fn main() {
    println!("cargo:rerun-if-changed=../migrations");
}
