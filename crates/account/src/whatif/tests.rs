use super::*;
use crate::ledger::{Ledger, MOST_FILES};
use crate::prices::{KnownPrices, PriceRequest, PricedCalls};
use meter::call::{Call, Listener};
use meter::names::InheritedFiles;
use meter::syscalls;
use proptest::prelude::*;

/// Test prices: 400 ns for a stat or a failed lookup, and for open and close together.
fn prices() -> Prices {
    let mut all = PricedCalls::default();
    PriceKind::ALL
        .into_iter()
        .for_each(|sort| all.add(sort, 1, 0));
    let here = Prices::measure(
        None,
        PriceRequest {
            work: &all,
            bytes: false,
        },
    );
    let given = KnownPrices {
        empty: None,
        stat: Some(400.0),
        miss: Some(300.0),
        open_close: Some(1000.0),
        xattr: Some(500.0),
    };
    let mut prices = here.replace_known(&given, "a test".to_owned());
    (prices.part, prices.uring) = (0.0, 1200.0);
    prices
}

fn detail(files: u32) -> Detail {
    detail_of_calls(files, 3000)
}

/// stat, open, fstat and close of `files` files; each call takes `nanos`.
fn detail_of_calls(files: u32, nanos: u64) -> Detail {
    let mut ledger = Ledger::new(InheritedFiles {
        cwd: Some(b"/x".to_vec()),
        ..InheritedFiles::default()
    });
    for n in 0..files {
        let name = n.to_string();
        for (gate, fd, name, result) in [
            ("newfstatat", -100_i64 as u64, Some(name.as_bytes()), 0),
            ("openat", -100_i64 as u64, Some(name.as_bytes()), 3),
            ("fstat", 3, None, 0),
            ("close", 3, None, 0),
        ] {
            let number = syscalls::by_name(gate).unwrap().number;
            let args = [fd, 0, 0, 0, 0, 0];
            let result = Some(result);
            ledger.call(&Call {
                pid: 1,
                tid: 1,
                number,
                args,
                name,
                other: None,
                result,
                start: 0,
                nanos,
            });
        }
    }
    ledger.close()
}

/// The savings of changes at [`prices`].
fn at_prices(
    detail: &Detail,
    asked: &BTreeMap<Vec<u8>, MetadataCalls>,
    user: f64,
    cpu: f64,
    elapsed: Option<f64>,
) -> WhatIf {
    what_if(
        detail,
        asked,
        (&prices(), Costs::Priced),
        user,
        cpu,
        elapsed,
    )
}

fn find_change<'a>(what: &'a WhatIf, name: &str) -> &'a WhatIfChange {
    what.changes
        .iter()
        .find(|change| change.kind.name() == name)
        .unwrap()
}

#[test]
fn redundant_calls_are_saved_at_their_full_price() {
    let (detail, prices) = (detail(2000), prices());
    let asked = metadata_calls(&detail, |dir| (dir == b"/x").then(|| b"ext4".to_vec()));
    assert_eq!(
        asked
            .iter()
            .map(|(name, asked)| (&name[..], asked.entries))
            .collect::<Vec<_>>(),
        [(&b"ext4"[..], 2000)]
    );
    let what = what_if(
        &detail,
        &asked,
        (&prices, Costs::Priced),
        0.010,
        0.001,
        None,
    );
    assert_eq!(what.fixed, 400.0);
    let fstat = prices.price(PriceKind::OpenStat);
    let combine = find_change(&what, "combine-stat");
    assert_eq!(combine.calls, 6000);
    assert!(
        (combine.seconds - 2000.0 * (1000.0 + fstat) / 1e9).abs() < 1e-9,
        "{combine:?}"
    );
    assert!((combine.overhead - 6000.0 * 400.0 / 1e9).abs() < 1e-12 && combine.is_advised());
    assert_eq!(combine.elapsed, Some(6000.0 * 3000.0 / 1e9));
    assert!((what.cpu - (0.010 + what.priced)).abs() < 1e-12);
    assert!((combine.percent - 100.0 * combine.seconds / what.cpu).abs() < 1e-9);
    let uring = find_change(&what, "batch-uring");
    assert!(!uring.is_advised() && uring.seconds < 0.0 && uring.calls == 2000 - 63);
    assert!(
        (uring.seconds + 2000.0 * 800.0 / 1e9).abs() < 1e-12
            && matches!(uring.kind, ChangeKind::Uring { ring: 1200.0, .. })
    );
    // Only stat and fstat count as metadata calls, not open and close.
    let raw = find_change(&what, "raw-tables");
    assert!(
        (raw.seconds - 2000.0 * (400.0 + fstat - 100.0) / 1e9).abs() < 1e-9 && raw.is_advised(),
        "{raw:?}"
    );
    let bulk = find_change(&what, "batch-bulkstat");
    assert!(bulk.calls == 0 && !bulk.is_advised());
    assert_eq!(bulk.kind, ChangeKind::Bulkstat { is_asked: false });
}

#[test]
fn calls_that_a_precise_meter_has_timed_cost_what_it_has_metered() {
    // Each call takes 1 µs, except calls that have waited.
    let costs = (&prices(), Costs::Metered);
    for (detail, calls) in [(detail_of_calls(2000, 1000), 6000), (detail(0), 0)] {
        let what = what_if(&detail, &BTreeMap::new(), costs, 1.0, 0.0, None);
        let seconds = find_change(&what, "combine-stat").seconds;
        assert!((seconds - f64::from(calls) * 1000.0 / 1e9).abs() < 1e-9);
    }
    let waited = detail_of_calls(2000, 1_000_000);
    let what = what_if(&waited, &BTreeMap::new(), costs, 1.0, 0.0, None);
    let priced = (costs.0, Costs::Priced);
    let by_price = what_if(&waited, &BTreeMap::new(), priced, 1.0, 0.0, None);
    let seconds = |what: &WhatIf| find_change(what, "combine-stat").seconds;
    assert_eq!(seconds(&what), seconds(&by_price));
}

/// With noisy times, the prices of the calls must reach 10 ms; their metered time proves nothing.
#[test]
fn noisy_times_do_not_make_an_estimate_long_enough() {
    let detail = detail_of_calls(2000, 1_000_000);
    let asked = metadata_calls(&detail, |dir| (dir == b"/x").then(|| b"ext4".to_vec()));
    let prices = prices();
    for (costs, is_too_short) in [(Costs::Priced, false), (Costs::Noisy, true)] {
        let what = what_if(&detail, &asked, (&prices, costs), 0.010, 0.001, None);
        for name in ["combine-stat", "raw-tables"] {
            let change = find_change(&what, name);
            assert_eq!(change.is_too_short(), is_too_short, "{costs:?}: {change:?}");
            assert_eq!(change.is_advised(), !is_too_short);
        }
    }
    // The calls take 15 ms at the test prices.
    let many = detail_of_calls(14_000, 100_000);
    let what = what_if(&many, &asked, (&prices, Costs::Noisy), 0.1, 0.1, None);
    assert!(!find_change(&what, "combine-stat").is_too_short());
}

#[test]
fn on_network_file_systems_elapsed_time_is_saved() {
    let detail = detail_of_calls(2000, 1_000_000);
    let asked = metadata_calls(&detail, |_| Some(b"nfs4".to_vec()));
    let what = at_prices(&detail, &asked, 0.010, 0.020, Some(9.0));
    assert_eq!(what.all(), 9.0);
    // The saving includes the time that the avoided calls waited.
    let combined = find_change(&what, "combine-stat");
    assert!(combined.seconds > 1.0 && combined.seconds <= combined.basis.seconds);
    assert!((combined.percent - 100.0 * combined.seconds / 9.0).abs() < 1e-9);
    let local = at_prices(&detail, &asked, 0.010, 0.020, None);
    assert!(find_change(&local, "combine-stat").seconds < 0.020);
}

#[test]
fn savings_of_a_part_are_scaled_to_the_whole_run() {
    let detail = detail(2000);
    let part = at_prices(
        &detail,
        &metadata_calls(&detail, |_| Some(b"ext4".to_vec())),
        0.010,
        0.001,
        None,
    );
    let whole = part.clone().scaled(2.5, |_| Extrapolation {
        calls: 2.5,
        seconds: 2.5,
        all: ReplacedCalls::new(u64::MAX, f64::INFINITY),
    });
    assert_eq!((whole.cpu, whole.fixed), (2.5 * part.cpu, part.fixed));
    for (part, whole) in part.changes.iter().zip(&whole.changes) {
        assert!((whole.percent - part.percent).abs() < 1e-9);
        assert_eq!(whole.is_advised(), part.is_advised());
        assert!(
            (whole.seconds - 2.5 * part.seconds).abs() < 1e-9
                && (whole.calls - part.calls * 5 / 2).abs() <= 1
        );
    }
}

/// A part of a run may be too short for an estimate although the run is not.
#[test]
fn an_estimate_is_long_enough_if_the_whole_run_is() {
    let detail = detail_of_calls(1000, 3000);
    let part = at_prices(&detail, &BTreeMap::new(), 0.1, 0.1, None);
    assert!(find_change(&part, "combine-stat").is_too_short());
    let whole = part.scaled(4.0, |_| Extrapolation {
        calls: 4.0,
        seconds: 4.0,
        all: ReplacedCalls::new(16_000, 0.048),
    });
    let combine = find_change(&whole, "combine-stat");
    assert!(
        !combine.is_too_short() && combine.is_advised(),
        "{combine:?}"
    );
}

#[test]
fn files_beyond_the_limit_are_counted_like_the_others() {
    let files = MOST_FILES as u32 * 2;
    let asked = metadata_calls(&detail(files), |_| Some(b"ext4".to_vec()));
    let MetadataCalls { entries, work, .. } = asked[&b"ext4"[..]];
    assert!(
        entries.abs_diff(files.into()) * 100 < files.into(),
        "{entries}"
    );
    assert!(
        work.calls_of(PriceKind::Stat).abs_diff(files.into()) * 100 < files.into(),
        "{work:?}"
    );
}

#[test]
fn without_calls_there_are_no_savings() {
    let detail = detail(0);
    let what = at_prices(&detail, &BTreeMap::new(), 0.0, 0.0, None);
    assert_eq!(what.changes.len(), 11);
    for change in &what.changes {
        assert!(
            change.calls == 0
                && change.seconds == 0.0
                && change.percent == 0.0
                && !change.is_advised(),
            "{change:?}"
        );
    }
}

#[test]
fn raw_tables_replace_system_time_and_cost_some() {
    let detail = detail_of_calls(2000, 5000);
    let asked = metadata_calls(&detail, |_| Some(b"ext4".to_vec()));
    let saved = |user, cpu| {
        let what = what_if(
            &detail,
            &asked,
            (&prices(), Costs::Metered),
            user,
            cpu,
            None,
        );
        find_change(&what, "raw-tables").seconds
    };
    let tables = 2000.0 * RAW * 400.0 / 1e9;
    // stat and fstat took 20 ms; the user time is not saved.
    assert!((saved(0.030, 0.080) - (0.020 - tables)).abs() < 1e-9);
    // The saving is at most the CPU time of the calls.
    assert!((saved(0.030, 0.042) - (0.012 - tables)).abs() < 1e-9);
}

#[test]
fn raw_tables_are_not_advised_for_few_files() {
    let detail = detail(10);
    let asked = metadata_calls(&detail, |_| Some(b"ext4".to_vec()));
    assert!(!find_change(&at_prices(&detail, &asked, 0.0, 0.0, None), "raw-tables").is_advised());
}

#[test]
fn changes_that_rest_on_few_calls_or_little_time_are_too_short_to_estimate() {
    // Three calls per file are redundant.
    for (files, nanos, is_too_short) in [
        (33, 1_000_000, true),
        (34, 1_000_000, false),
        (1000, 3_000, true),
        (1000, 4_000, false),
    ] {
        let detail = detail_of_calls(files, nanos);
        let what = at_prices(&detail, &BTreeMap::new(), 0.0, 0.0, None);
        let combine = find_change(&what, "combine-stat");
        assert_eq!(
            (combine.is_too_short(), combine.is_advised()),
            (is_too_short, !is_too_short),
            "{files} files, {nanos} ns a call: {combine:?}"
        );
    }
}

proptest! {
    #[test]
    fn no_saving_exceeds_what_was_measured(
        files in 0..3000_u32,
        nanos in 0..5000_u64,
        user in 0.0..0.1_f64,
        system in 0.0..0.1_f64,
        fstype in prop::sample::select(vec!["ext4", "xfs", "tmpfs"]),
        costs in prop::sample::select(vec![Costs::Metered, Costs::Priced]),
    ) {
        let detail = detail_of_calls(files, nanos);
        let asked = metadata_calls(&detail, |_| Some(fstype.into()));
        let what = what_if(&detail, &asked, (&prices(), costs), user, user + system, None);
        let in_calls = 4.0 * f64::from(files) * nanos as f64 / 1e9;
        for change in &what.changes {
            prop_assert!(change.seconds <= in_calls + user + 1e-9, "{:?}", change);
            prop_assert!(change.seconds <= what.cpu + 1e-9, "{:?}", change);
            prop_assert!(change.percent <= 100.0 + 1e-9, "{:?}", change);
            prop_assert!(change.overhead <= in_calls + user + 1e-9 || !change.is_advised(), "{:?}", change);
            prop_assert!(!change.is_advised() || !change.is_too_short(), "{:?}", change);
        }
    }
}
