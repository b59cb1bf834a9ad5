//! A slow file system to measure on: the FUSE server of the tests.
//!
//! `slow_mirror TREE AT MICROSECONDS` mirrors TREE at AT, in its own mount namespace, with this
//! latency for each request. It prints `ready`; then, for each line of input, the number of requests
//! of each kind since the last line: `LOOKUP=3 OPEN=1`. It ends at the end of its input.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the server reads the tree past the gate"
)]
#![allow(dead_code, reason = "the tests use the rest")]

use std::path::Path;
use std::time::Duration;

#[path = "../tests/support/build.rs"]
mod build;
#[path = "../tests/support/disks.rs"]
mod disks;
#[path = "../tests/support/fuse.rs"]
mod fuse;
#[path = "../tests/support/slow_mirror.rs"]
mod slow_mirror;
#[path = "../tests/support/tool.rs"]
mod tool;
#[path = "../tests/support/wait.rs"]
mod wait;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [tree, at, latency] = &arguments[..] else {
        panic!("slow_mirror TREE AT MICROSECONDS")
    };
    let latency = Duration::from_micros(latency.parse().expect("a number of microseconds"));
    let mirror = slow_mirror::serve_mirror(
        Path::new(tree),
        Path::new(at),
        slow_mirror::Slowness {
            latency,
            ..Default::default()
        },
    );
    println!("ready");
    for line in std::io::stdin().lines() {
        line.expect("a line");
        let counts: Vec<String> = mirror
            .counts()
            .into_iter()
            .map(|(name, n)| format!("{name}={n}"))
            .collect();
        println!("{}", counts.join(" "));
    }
}
