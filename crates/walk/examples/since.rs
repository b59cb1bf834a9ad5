//! Prints what has changed in a btrfs subvolume since a generation; without one, its generation.
use std::time::Instant;
use walk::engine::btrfs::since::{changed_since, subvolume};

fn main() {
    let mut args = std::env::args().skip(1);
    let dir = args.next().expect("a directory");
    let top = walk::open_top(dir.as_bytes(), 0).expect("a directory that can be opened");
    match args.next().map(|g| g.parse().expect("a generation")) {
        None => println!("{}", subvolume(&top.fd).expect("btrfs").generation),
        Some(since) => {
            let start = Instant::now();
            let known = subvolume(&top.fd).expect("btrfs");
            let changes = changed_since(&top.fd, &known, since, |_| false, |_| true);
            let changes = changes.expect("btrfs").unwrap_or_default();
            eprintln!(
                "{} changes, {:.3} ms",
                changes.len(),
                start.elapsed().as_secs_f64() * 1e3
            );
            for change in changes.iter().take(40) {
                let names: Vec<_> = change
                    .names
                    .iter()
                    .map(|n| format!("{}/{}", n.dir, String::from_utf8_lossy(&n.name)))
                    .collect();
                println!(
                    "{} {:o} {} {names:?}",
                    change.meta.ino, change.meta.mode, change.meta.size
                );
            }
        }
    }
}
