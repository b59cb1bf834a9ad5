//! Runs each engine that is possible on a directory, and prints totals, digest, time and system
//! calls.

use std::time::Instant;

use walk::{Diagnostics, EngineKind, Summary, WalkOptions, walk};

fn main() {
    let mut args = std::env::args().skip(1);
    let dir = args.next().expect("a directory");
    let only: Vec<String> = args.collect();
    for by in EngineKind::SELECTABLE {
        if !only.is_empty() && !only.iter().any(|name| name == by.name()) {
            continue;
        }
        let times = if std::env::var_os("ONE").is_some() {
            1
        } else {
            3
        };
        for _ in 0..times {
            let (sink, diagnostics) = (Summary::default(), Diagnostics::default());
            let before = gate::meter::tally();
            let start = Instant::now();
            let options = WalkOptions {
                dirs: vec![dir.clone().into_bytes()],
                engine: Some(by),
                ..WalkOptions::default()
            };
            let answer = walk(&options, &sink, &diagnostics);
            let took = start.elapsed();
            match answer {
                Err(e) => println!("{:9} {e:?}", by.name()),
                Ok(answer) => {
                    let t = sink.totals();
                    let calls = gate::meter::tally().since(&before).calls();
                    let ms = took.as_secs_f64() * 1e3;
                    let part = &answer.parts[0];
                    println!(
                        "{:9} {:8} entries {} {ms:8.1} ms {:.2} calls/entry, by {} in {} parts, {} warnings",
                        by.name(),
                        t.entries,
                        t.digest,
                        calls as f64 / t.entries as f64,
                        part.engine.name(),
                        answer.parts.len(),
                        diagnostics.take_warnings().len()
                    );
                }
            }
        }
    }
}
