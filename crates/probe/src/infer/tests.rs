//! Tests the inference with the paper's patterns, and with noise.

use proptest::prelude::*;

use self::effort::effort;
use super::comb::comb;
use super::fold::fold;
use super::knee::knee;
use super::peaks::{peaks, spacing};
use super::series::{evaluate, marks};
use super::windows::readahead;
use crate::error::Error;
use crate::finding::{Finding, Method, Outcome, Value};
use crate::names::Kind;
use crate::samples::Series;

#[path = "../../../../tests/support/effort.rs"]
mod effort;

fn paper(name: &str) -> Series {
    let text = match name {
        "block-256" => include_str!("../../papers/block-256.csv"),
        "block-512" => include_str!("../../papers/block-512.csv"),
        "readahead" => include_str!("../../papers/readahead.csv"),
        "cache" => include_str!("../../papers/cache.csv"),
        _ => include_str!("../../papers/extent.csv"),
    };
    Series::from_csv(text.as_bytes()).unwrap()
}

/// The value of the first finding, which must be certain if there is one.
fn first(series: &Series) -> Option<Value> {
    let finding = evaluate(series).swap_remove(0);
    assert_eq!(
        finding.value().is_some(),
        finding.confidence() > 0.9,
        "{finding:?}"
    );
    finding.value().cloned()
}

/// The value of the first finding.
fn value(series: &Series) -> Option<Value> {
    evaluate(series).swap_remove(0).value().cloned()
}

#[test]
fn the_papers_patterns_give_the_papers_figures() {
    assert_eq!(first(&paper("block-256")), Some(Value::Number(4096.0)));
    assert_eq!(first(&paper("block-512")), Some(Value::Number(4096.0)));
    let ahead = evaluate(&paper("readahead"));
    let values: Vec<_> = ahead.iter().map(Finding::value).collect();
    assert_eq!(
        values,
        [Some(&Value::Number(15.0)), Some(&Value::Number(14.0))]
    );
    let Outcome::Found {
        method: Method::EachNth { first: odd, .. },
        ..
    } = ahead[0].outcome
    else {
        panic!("{ahead:?}")
    };
    assert_eq!(odd, Some(14));
    assert_eq!(
        first(&paper("cache")),
        Some(Value::Number(13.0 * 1024.0 * 1024.0 * 1024.0))
    );
    let mib = 1024.0 * 1024.0;
    assert_eq!(
        first(&paper("extent")),
        Some(Value::Range(83.0 * mib, 84.0 * mib))
    );
}

#[test]
fn the_papers_peaks_are_marked() {
    let from_1 = |name: &str| {
        marks(&paper(name))
            .iter()
            .map(|at| at + 1)
            .collect::<Vec<_>>()
    };
    assert_eq!(from_1("block-256"), [1, 17, 33, 49, 65, 81, 97]);
    assert_eq!(from_1("readahead"), [1, 15, 30, 45, 60, 75, 90]);
    assert_eq!(from_1("cache"), [53]);
    assert_eq!(from_1("extent"), [78, 162, 245, 329]);
}

/// Reproducible random numbers.
struct RandomNumbers(u64);

impl RandomNumbers {
    /// A number between 0 and 1.
    fn roll(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// The time of a call of about `base`, with little noise and an occasional long disturbance.
    fn time(&mut self, base: f64) -> f64 {
        let jitter = 1.0 + 0.15 * self.roll() + 0.15 * self.roll();
        let burst = if self.roll() < 0.03 {
            1.0 + 40.0 * self.roll()
        } else {
            1.0
        };
        base * jitter * burst
    }
}

/// The number of seeds, of `n`, for which `holds` returns true.
fn count(n: u64, mut holds: impl FnMut(&mut RandomNumbers) -> bool) -> u64 {
    (0..n)
        .filter(|seed| holds(&mut RandomNumbers(*seed)))
        .count() as u64
}

#[test]
fn a_block_is_found_in_noise() {
    for block in [2, 4, 8, 16, 64, 128] {
        let right = count(100, |dice| {
            let mut run = || {
                (0..2048)
                    .map(|i| dice.time(if i % block == 0 { 1.5 } else { 1.0 }))
                    .collect::<Vec<_>>()
            };
            let series = Series::from_trials(Kind::Writes, 256, (0..3).map(|_| run()).collect());
            value(&series) == Some(Value::Number(block as f64 * 256.0))
        });
        assert!(right >= 99, "{block}: {right} of 100");
    }
}

#[test]
fn a_block_is_found_within_a_page_of_two() {
    let right = count(100, |dice| {
        let base = |i: usize| {
            if i.is_multiple_of(16) {
                9.0
            } else if i.is_multiple_of(8) {
                1.6
            } else {
                1.0
            }
        };
        let mut run = || (0..2048).map(|i| dice.time(base(i))).collect::<Vec<_>>();
        let series = Series::from_trials(Kind::Writes, 256, (0..5).map(|_| run()).collect());
        value(&series) == Some(Value::Number(2048.0))
    });
    assert!(right >= 99, "{right} of 100");
}

#[test]
fn a_period_too_long_for_the_comb_is_found_above_a_finer_one() {
    let all = effort(3, 10) as u64;
    let right = count(all, |dice| {
        let base = |i: usize| {
            if i.is_multiple_of(2048) {
                200.0
            } else if i.is_multiple_of(512) {
                2.0
            } else {
                1.0
            }
        };
        let mut run = || {
            (0..16 * 1024)
                .map(|i| dice.time(base(i)))
                .collect::<Vec<_>>()
        };
        let series = Series::from_trials(Kind::Blocks, 4096, (0..3).map(|_| run()).collect());
        value(&series) == Some(Value::Number(2048.0))
    });
    assert!(right * 10 >= all * 9, "{right} of {all}");
}

#[test]
fn a_period_is_found_that_begins_at_another_sample_in_each_trial() {
    let all = effort(3, 10) as u64;
    let right = count(all, |dice| {
        let mut run = |from: usize| {
            (0..8192)
                .map(|i| {
                    dice.time(if (i + from).is_multiple_of(64) {
                        40.0
                    } else {
                        1.0
                    })
                })
                .collect()
        };
        let series = Series::from_trials(Kind::Blocks, 4096, vec![run(0), run(20), run(41)]);
        value(&series) == Some(Value::Number(64.0))
    });
    assert!(right * 10 >= all * 9, "{right} of {all}");
}

#[test]
fn a_period_is_found_in_noise() {
    for period in [4, 16, 15, 32, 128, 640, 1024] {
        let all = effort(1, 5) as u64;
        let right = count(all, |dice| {
            let samples: Vec<f64> = (0..16 * 1024)
                .map(|i| dice.time(if i % period == period / 3 { 4.0 } else { 1.0 }))
                .collect();
            comb(&samples).is_some_and(|found| found.low == period as f64)
        });
        assert_eq!(right, all, "{period}");
    }
}

#[test]
fn noise_has_no_period_and_no_knee() {
    let mut flat =
        |n: usize, dice: &mut RandomNumbers| (0..n).map(|_| dice.time(1.0)).collect::<Vec<_>>();
    let wild = |n: usize, dice: &mut RandomNumbers| {
        (0..n)
            .map(|_| -dice.roll().max(1e-12).ln())
            .collect::<Vec<_>>()
    };
    for make in [
        &mut flat as &mut dyn FnMut(usize, &mut RandomNumbers) -> Vec<f64>,
        &mut { wild },
    ] {
        let silent = |silent: u64| assert!(silent >= 97, "{silent} of 100");
        silent(count(100, |dice| fold(&make(2048, dice)).is_none()));
        silent(count(100, |dice| fold(&make(100, dice)).is_none()));
        silent(count(100, |dice| comb(&make(1024, dice)).is_none()));
        silent(count(100, |dice| {
            spacing(&peaks(&make(350, dice))).is_none()
        }));
        silent(count(100, |dice| knee(&make(64, dice)).is_none()));
    }
}

#[test]
fn the_papers_patterns_survive_noise() {
    for (name, least) in [
        ("block-256", 99),
        ("readahead", 90),
        ("extent", 80),
        ("cache", 90),
    ] {
        let clean = paper(name);
        let expected = value(&clean);
        let (mut right, mut wrong) = (0, 0);
        for seed in 0..100 {
            let mut dice = RandomNumbers(seed);
            let noise = |v: &f64| v * (1.0 + 0.03 * dice.roll());
            let noisy = Series {
                trials: vec![clean.trials[0].iter().map(noise).collect()],
                ..clean.clone()
            };
            match value(&noisy) {
                found if found == expected => right += 1,
                Some(_) => wrong += 1,
                None => {}
            }
        }
        assert!(
            right >= least && wrong <= 5,
            "{name}: {right} right, {wrong} wrong"
        );
    }
}

#[test]
fn the_windows_of_linux_are_found() {
    // Windows of 4 pages, then 8, 16, and always 32, each fetched when the first page of the
    // previous window is read.
    let (mut cached, mut have, mut mark) = (Vec::new(), 0, 0);
    let mut next = 4_u64;
    for page in 0..512 {
        if page == mark && have < 512 {
            let before = have;
            have = (have + next).min(512);
            mark = if before == 0 { 1 } else { before };
            next = (next * 2).min(32);
        }
        cached.push(have);
    }
    let seen = readahead(&cached, 512).unwrap();
    assert_eq!(
        (seen.initial, &seen.ramp[..], seen.steady, seen.trigger),
        (4, &[4, 8, 16, 32][..], 32, 32)
    );
    // Delay most windows by one page; windows at multiples of 96 pages are observed in time.
    let first = cached.iter().rposition(|have| *have <= 128).unwrap();
    for at in (first + 1..cached.len()).filter(|at| at % 32 == 0 && at % 96 != 0) {
        cached[at] = cached[at - 1];
    }
    assert_eq!(readahead(&cached, 512).unwrap().trigger, 32);
    assert_eq!(readahead(&[1, 2, 3], 3), None);
    assert_eq!(readahead(&[], 0), None);
}

#[test]
fn a_malformed_file_of_samples_is_refused_with_the_line() {
    let wrong = |text: &str| match Series::from_csv(text.as_bytes()) {
        Err(Error::Samples { line, .. }) => line,
        other => panic!("{other:?}"),
    };
    assert_eq!(wrong(""), 0);
    assert_eq!(wrong("# series: reads\n1,2\n"), 0);
    assert_eq!(wrong("# series: dreams\n"), 1);
    assert_eq!(wrong("# step: 0\n"), 1);
    assert_eq!(wrong("# series: reads\n# step: 256\n1,2\n2,x\n"), 4);
    assert_eq!(wrong("# series: reads\n# step: 256\n1,2\n2,1,1\n"), 4);
    let own =
        Series::from_csv(b"# series: syncs\n# step: 1048576\nRunNum0,12.5\nRunNum1,13\n").unwrap();
    assert_eq!(
        own,
        Series::from_trial(Kind::Syncs, 1 << 20, vec![12.5, 13.0])
    );
}

proptest! {
    #[test]
    fn samples_survive_writing_and_reading(
        kind in prop::sample::select(Kind::ALL.to_vec()),
        step in 1_u64..1 << 40,
        (runs, trials) in (1_usize..20, 1_usize..4),
        seed in any::<u64>(),
    ) {
        let mut dice = RandomNumbers(seed);
        let trials = (0..trials).map(|_| (0..runs).map(|_| dice.roll() * 1e9).collect()).collect();
        let series = Series::from_trials(kind, step, trials);
        prop_assert_eq!(Series::from_csv(series.to_csv().as_bytes()), Ok(series));
    }

    #[test]
    fn no_file_makes_parsing_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Series::from_csv(&bytes);
    }

    #[test]
    fn no_samples_make_judging_panic(
        kind in prop::sample::select(Kind::ALL.to_vec()),
        samples in prop::collection::vec(-1e300_f64..1e300, 0..200),
        trials in 0_usize..3,
    ) {
        let series = Series::from_trials(kind, 1 << 50, vec![samples; trials]);
        for finding in evaluate(&series) {
            prop_assert!((0.0..=1.0).contains(&finding.confidence()), "{:?}", finding);
            prop_assert_eq!(finding.value().is_none(), finding.confidence() == 0.0);
        }
        let _ = marks(&series);
    }
}
