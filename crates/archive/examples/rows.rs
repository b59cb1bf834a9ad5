//! Gathers a directory's metadata with each method (or those named), each in its own process, and
//! prints the times, beside that of a walk alone, and the memory of the rows.

use std::time::Instant;

use archive::gather::{CollectOptions, Gather, gather};
use walk::{Diagnostics, Summary};

/// Peak memory of this process, in KiB.
fn most() -> u64 {
    let text = gate::file::read_kernel(c"/proc/self/status").expect("/proc");
    let text = String::from_utf8_lossy(&text);
    let line = text
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .expect("VmHWM");
    line.split_whitespace()
        .nth(1)
        .and_then(|number| number.parse().ok())
        .expect("a number")
}

fn main() {
    let mut args = std::env::args().skip(1);
    let dir = args.next().expect("a directory").into_bytes();
    let only: Vec<String> = args.collect();
    for way in Gather::ALL
        .into_iter()
        .filter(|way| only.is_empty() || only.iter().any(|name| name == way.name()))
    {
        let diagnostics = Diagnostics::default();
        let alone = walk::WalkOptions {
            dirs: vec![dir.clone()],
            preferred: way.engines(),
            ..walk::WalkOptions::default()
        };
        let start = Instant::now();
        walk::walk(&alone, &Summary::default(), &diagnostics).expect("a walk");
        let (walked, before) = (start.elapsed(), most());
        let options = CollectOptions {
            sources: vec![dir.clone()],
            gather: Some(way),
            ..CollectOptions::default()
        };
        let start = Instant::now();
        let (rows, parts) = gather(&options, &diagnostics).expect("rows");
        let gathered = start.elapsed();
        let start = Instant::now();
        let names: usize = (0..rows.len())
            .map(|row| rows.name(row).len() + usize::from(rows.is_dir(row)))
            .sum();
        println!(
            "{:9} {:9} {} rows in {gathered:?}, walked alone {walked:?}; all looked at in {:?}; {names} bytes of names; at most {} KiB more",
            way.name(),
            parts[0].engine.name(),
            rows.len(),
            start.elapsed(),
            most() - before
        );
    }
}
