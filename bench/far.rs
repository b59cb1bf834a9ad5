//! A tree that is far away: the FUSE server of the tests, for whoever wants to measure on it.
//!
//! `far TREE AT MICROSECONDS` shows TREE at AT, in the mount namespace that it is started in, and
//! takes so long for each request. It says `ready`; then, for each line that it reads, how many
//! requests of each kind there were since the last: `LOOKUP=3 OPEN=1`. It ends with its input.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the server shows a tree past the gate"
)]
#![allow(dead_code, reason = "the tests use the rest")]

use std::path::Path;
use std::time::Duration;

#[path = "../tests/support/build.rs"]
mod build;
#[path = "../tests/support/disks.rs"]
mod disks;
#[path = "../tests/support/far.rs"]
mod far;
#[path = "../tests/support/fuse.rs"]
mod fuse;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [tree, at, latency] = &arguments[..] else {
        panic!("far TREE AT MICROSECONDS")
    };
    let latency = Duration::from_micros(latency.parse().expect("a number of microseconds"));
    let far = far::serve(
        Path::new(tree),
        Path::new(at),
        far::Slowness {
            latency,
            ..Default::default()
        },
    );
    println!("ready");
    for line in std::io::stdin().lines() {
        line.expect("a line");
        let counts: Vec<String> = far
            .counts()
            .into_iter()
            .map(|(name, n)| format!("{name}={n}"))
            .collect();
        println!("{}", counts.join(" "));
    }
}
