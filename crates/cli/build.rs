//! How the program is linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Tests start the program tens of thousands of times, and themselves a thousand times. The 170,000 relocations of a position-independent
    // program take 1 ms of each start.
    // Static programs of musl are linked for position-independent code in any case.
    let is = |variable, value| std::env::var(variable).is_ok_and(|it| it == value);
    if is("PROFILE", "debug") && is("CARGO_CFG_TARGET_ENV", "gnu") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
        println!("cargo::rustc-link-arg-tests=-no-pie");
    }
}
