//! Sets linker options of the program.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Link a position-dependent executable: processing the 170,000 relocations of a position-independent one takes 1 ms of each start, and
    // tests start the program tens of thousands of times. For musl, a static program is position-independent in any case.
    let is = |variable, value| std::env::var(variable).is_ok_and(|it| it == value);
    if is("PROFILE", "debug") && is("CARGO_CFG_TARGET_ENV", "gnu") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
        println!("cargo::rustc-link-arg-tests=-no-pie");
    }
}
