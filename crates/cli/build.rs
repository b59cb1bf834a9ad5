//! How the program is linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Programs of the tests start tens of thousands of times. Without the 170,000 relocations of a position-independent program a start
    // takes 1 ms instead of 4.
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "debug") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
