//! Tests of `--replay`: the paper's patterns, and samples written by `--csv`.

use serde_json::json;

use super::inferred;
use crate::support::run::args;
use crate::support::{fathom, run};

const PAPERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../probe/papers");

#[test]
fn the_papers_patterns_give_the_papers_numbers() {
    let mib = 1 << 20;
    for (file, name, expected) in [
        ("block-256", "page-cache-granule-by-time", json!(4096)),
        ("block-512", "page-cache-granule-by-time", json!(4096)),
        ("readahead", "fetched-at-once", json!(15)),
        ("readahead", "prefetched", json!(14)),
        ("cache", "cache-capacity", json!(13_u64 << 30)),
        ("extent", "extent-by-time", json!([83 * mib, 84 * mib])),
    ] {
        let value = run(&mut fathom(args![
            "probe",
            "--replay",
            format!("{PAPERS}/{file}.csv"),
            "--json"
        ]))
        .exits(0)
        .json();
        assert_eq!(*inferred(&value, name), expected, "{file}");
        assert!(value["result"]["dir"].is_null());
    }
}

/// Times from a machine with 2 processors under a load of 13, and the values that its kernel
/// reported.
#[test]
fn times_recorded_under_load_give_what_the_kernel_reports() {
    let samples = concat!(env!("CARGO_MANIFEST_DIR"), "/../probe/samples");
    for (file, name, expected) in [
        ("writes-ext4-1k", "allocation-block-by-time", 1024),
        ("writes-xfs-4k", "allocation-block-by-time", 4096),
        ("reads-ext4-1k", "page-cache-granule-by-time", 4096),
        // In pages of 4 KiB: readahead of 16, 128 and 512 KiB.
        ("readahead-16", "fetched-at-once", 4),
        ("readahead-128", "fetched-at-once", 32),
        ("readahead-512", "fetched-at-once", 128),
    ] {
        let file = format!("{samples}/{file}.csv");
        let ran = run(&mut fathom(["probe", "--replay", &file, "--json"])).exits(0);
        assert_eq!(*inferred(&ran.json(), name), json!(expected), "{ran}");
    }
}

#[test]
fn replayed_samples_give_the_same_value_and_plots_are_svg() {
    let ground = tempfile::tempdir().unwrap();
    let (dir, kept) = (ground.path().join("dir"), ground.path().join("kept"));
    std::fs::create_dir(&dir).unwrap();
    std::fs::create_dir(&kept).unwrap();
    let arguments = args![
        "probe",
        &dir,
        "block",
        "--json",
        "--csv",
        &kept,
        "--plot",
        &kept,
        "--max-seconds",
        "10m"
    ];
    let ran = run(&mut fathom(arguments));
    assert!([0, 1].contains(&ran.code()), "{ran}");
    let value = ran.json();
    let again = |file: &str| {
        run(&mut fathom(args![
            "probe",
            "--replay",
            kept.join(file),
            "--json"
        ]))
        .exits(0)
        .json()
    };
    let name = "allocation-block-by-time";
    assert_eq!(
        inferred(&again("block-writes-256.csv"), name),
        inferred(&value, name)
    );
    for stem in [
        "block-writes-256",
        "block-reads-256",
        "block-reads-512",
        "block-reads-ahead-256",
    ] {
        let drawing = std::fs::read_to_string(kept.join(format!("{stem}.svg"))).unwrap();
        assert!(
            drawing.starts_with("<svg") && drawing.contains("</svg>"),
            "{stem}"
        );
    }
    assert!(super::names(&dir).is_empty());
}

#[test]
fn a_file_without_samples_is_refused() {
    let ground = tempfile::tempdir().unwrap();
    let file = ground.path().join("file");
    for text in [
        "",
        "1,2\n",
        "# series: dreams\n",
        "# series: reads\n# step: 256\n1,one\n",
        "# series: reads\n# step: 0\n1,1\n",
        "# series: blocks\n# step: 2199023255552\n1,1\n",
        // Evaluating these would take minutes.
        &format!(
            "# series: blocks\n# step: 4096\n{}",
            (1..=70_000)
                .map(|run| format!("{run},1\n"))
                .collect::<String>()
        ),
        &format!(
            "# series: passes\n# step: 4096\n{}",
            (1..=5_000)
                .map(|run| format!("{run},1\n"))
                .collect::<String>()
        ),
    ] {
        std::fs::write(&file, text).unwrap();
        run(&mut fathom(args!["probe", "--replay", &file])).refused();
    }
    run(&mut fathom(args![
        "probe",
        "--replay",
        ground.path().join("none")
    ]))
    .refused();
    run(&mut fathom(args!["probe", "--replay", ground.path()])).refused();
}
