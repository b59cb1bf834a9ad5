//! How the program is linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Tests start the program tens of thousands of times, and themselves a thousand times. The 170,000 relocations of a position-independent
    // program take 1 ms of each start.
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "debug") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
        println!("cargo::rustc-link-arg-tests=-no-pie");
    }
}
