//! A synthetic tree on a slow file system to measure on: the FUSE server of the tests.
//!
//! `synthetic AT DIRECTORIES FILES MICROSECONDS` mounts a tree with this many directories, and files in
//! each, at AT, in its own mount namespace, with this latency for each request, however many are
//! under way. It prints `ready`, ends at the end of its input, and then prints how
//! many requests there were.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the server mounts past the gate"
)]
#![allow(dead_code, reason = "the tests use the rest")]

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

#[path = "../tests/support/build.rs"]
mod build;
#[path = "../tests/support/disks.rs"]
mod disks;
#[path = "../tests/support/fuse.rs"]
mod fuse;
#[path = "../tests/support/synthetic.rs"]
mod synthetic;
#[path = "../tests/support/tool.rs"]
mod tool;
#[path = "../tests/support/wait.rs"]
mod wait;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [at, numbers @ ..] = &arguments[..] else {
        panic!("synthetic AT DIRECTORIES FILES MICROSECONDS")
    };
    let number = |word: &String| word.parse().expect("a number");
    let numbers: Vec<u64> = numbers.iter().map(number).collect();
    let [directories, files, latency] = numbers[..] else {
        panic!("synthetic AT DIRECTORIES FILES MICROSECONDS")
    };
    let tree = synthetic::SyntheticTree {
        directories,
        files,
        latency: Duration::from_micros(latency),
        ..Default::default()
    };
    let server = synthetic::serve_synthetic(tree, Path::new(at));
    println!("ready");
    for line in std::io::stdin().lines() {
        line.expect("a line");
    }
    println!("{}", server.load.requests.load(Ordering::Relaxed));
}
