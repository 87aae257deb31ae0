//! Migrations are compiled in; a new one must rebuild the crate.

fn main() {
    println!("cargo:rerun-if-changed=../migrations");
}
