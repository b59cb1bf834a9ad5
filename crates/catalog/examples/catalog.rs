//! Benchmark of writing catalogs: walks a directory with one engine, three times without a catalog
//! and three times with one.

use std::time::Instant;

use catalog::{Catalog, Options};
use walk::{Diagnostics, EngineKind, Summary, WalkOptions, walk};

fn main() {
    let mut args = std::env::args().skip(1);
    let (dir, file) = (
        args.next().expect("a directory"),
        args.next().expect("a file"),
    );
    let by = args.next().map(|name| {
        EngineKind::SELECTABLE
            .into_iter()
            .find(|by| by.name() == name)
            .expect("an engine")
    });
    let options = WalkOptions {
        dirs: vec![dir.clone().into_bytes()],
        engine: by,
        threads: Some(2),
        ..WalkOptions::default()
    };
    for _ in 0..3 {
        let (sink, diagnostics) = (Summary::default(), Diagnostics::default());
        let start = Instant::now();
        walk(&options, &sink, &diagnostics).expect("a walk");
        println!(
            "{:8} entries alone {:?}",
            sink.totals().entries,
            start.elapsed()
        );
        let start = Instant::now();
        let catalog = Catalog::create(file.as_bytes(), dir.as_bytes(), Options::default())
            .expect("a catalog");
        let report = walk(&options, &catalog, &diagnostics).expect("a walk");
        let walked = start.elapsed();
        let about = catalog.finish(&report, true).expect("a catalog");
        println!(
            "{:8} entries with a catalog {walked:?} + {:?}",
            about.entries,
            start.elapsed() - walked
        );
    }
}
