//! `fathom account COMMAND`: runs a command under a meter, and reports the cost of its system
//! calls.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use account::command::CommandAccount;
use account::intervals::{IntervalRow, Intervals};
use account::prices::KnownPrices;
use account::report::AccountReport;
use account::stacks::stacks;
use base::Warning;
use meter::attach::{Attach, AttachTarget};
use probe::Call;
use show::name::printable;
use show::table::TableStyle;
use show::units::duration;

use super::show::formats::{folded, system_calls_csv};
use super::show::intervals::IntervalLines;
use super::show::json::figures;
use super::show::screen::{Rows, screen_text};
use super::show::{Limits, SCHEMA, account_text};
use crate::cmd::account::args::Account as Args;
use crate::cmd::metered::{ReportTarget, not_metered};
use crate::error::{Error, Outcome};
use crate::input::whole;
use crate::json::Json;
use crate::out::{Out, envelope};

/// Default of `--top` for text: the maximum number of rows per table. [`TOP_JSON`] is the default
/// for JSON arrays.
const TOP: usize = 10;
const TOP_JSON: usize = 10_000;

pub(super) fn run(args: &Args, out: &Out) -> Outcome {
    if out.json && (args.csv || args.folded) {
        return Err(Error::new("--json cannot be used with --csv or --folded")
            .with_hint("omit one of them"));
    }
    // Check all options before the command runs, so that no error is reported only after the run.
    let given = args.prices.as_deref().map(read_prices).transpose()?;
    let is_for_programs = out.json || args.csv || args.folded;
    let report = ReportTarget::begin("account", args.output.as_deref(), is_for_programs)?;
    let ready = |processes: usize| {
        let what = match processes {
            1 => "1 process".to_owned(),
            processes => format!("{processes} processes"),
        };
        match args.duration {
            Some(time) => out.note(format_args!(
                "attached to {what} for {}",
                duration(time.as_secs_f64())
            )),
            None => out.note(format_args!("attached to {what}; press Ctrl-C to stop")),
        }
    };
    let mut lines = IntervalLines::default();
    let mut show = |row: &IntervalRow| lines.show(row);
    let intervals = args.interval.map(|seconds| Intervals {
        every: Duration::from_secs(seconds),
        show: &mut show,
    });
    let (meter, calls) = (&args.meter, args.calls);
    let taken = match attach_options(args, &ready)? {
        Some(attach) => CommandAccount::attach(&attach, meter, calls, given, intervals),
        None => CommandAccount::take(&args.command, meter, calls, given, intervals),
    };
    let taken = taken.map_err(|why| not_metered(why, out))?;
    let rows = args.top.unwrap_or(if out.json { TOP_JSON } else { TOP });
    let status = taken.metered.ended.status();
    let account = AccountReport::new(&taken, args.by, rows);
    let warnings = taken.metered.warnings().into_iter();
    let warnings: Vec<Warning> = warnings.map(Warning::general).collect();
    let text = |style: TableStyle| {
        if out.json {
            let figures = Some(figures(&account));
            return envelope(SCHEMA, Json(&account), figures, &warnings).to_line();
        }
        if args.csv {
            return system_calls_csv(&account, args.top.unwrap_or(usize::MAX));
        }
        if args.folded {
            return folded(&stacks(&taken));
        }
        if args.full {
            let calls = args.top.unwrap_or(usize::MAX);
            return account_text(&account, style, Limits { rows, calls }, out.verbose);
        }
        let rows = args.top.map_or(Rows::SCREEN, Rows::each);
        screen_text(&account, style, rows, out.verbose)
    };
    report.end(text, status, out)?;
    out.warn(&warnings);
    out.exit_with(status);
    // The process is about to end: freeing tens of thousands of names one by one would be wasted
    // time.
    std::mem::forget(taken);
    Ok(0)
}

/// The processes to attach to; `None` if fathom itself runs a command.
fn attach_options<'a>(args: &Args, ready: &'a dyn Fn(usize)) -> Result<Option<Attach<'a>>, Error> {
    let target = match &args.cgroup {
        Some(path) => AttachTarget::Cgroup(path.as_bytes().to_vec()),
        None if args.system => AttachTarget::Machine,
        None if !args.pid.is_empty() => AttachTarget::Processes(args.pid.clone()),
        None => {
            return match args.duration {
                Some(_) => Err(Error::new("--duration requires -p, --cgroup or --system")
                    .with_hint("to limit the time of a command, use timeout DURATION COMMAND")),
                None => Ok(None),
            };
        }
    };
    Ok(Some(Attach {
        target,
        duration: args.duration,
        ready,
    }))
}

/// Reads call prices from the JSON of `fathom probe DIR gates --json`.
fn read_prices(file: &OsStr) -> Result<(KnownPrices, String), Error> {
    const MOST: usize = 8 << 20;
    const NEXT: &str = "give the output of fathom probe DIR gates --json";
    let path = file.as_bytes();
    let cannot = |e: &dyn std::fmt::Display| {
        Error::read("cannot use the prices in", path, e.to_string(), NEXT)
    };
    let text = whole(path, MOST, "cannot read the prices in", NEXT)?;
    let value: serde_json::Value =
        serde_json::from_slice(&text).map_err(|e| cannot(&format!("not JSON: {e}")))?;
    let given = given(&value);
    if given == KnownPrices::default() {
        return Err(cannot(&"it has no prices"));
    }
    let dir = value["result"]["dir"].as_str().unwrap_or("a file");
    let dir = printable(dir.as_bytes());
    Ok((given, format!("fathom probe {dir} gates")))
}

/// The prices in the output of `fathom probe` that an account can use: calls on cached data, with
/// one thread.
fn given(value: &serde_json::Value) -> KnownPrices {
    let prices = value["result"]["prices"].as_array();
    let price = |calls: &[Call]| {
        let is_it = |price: &&serde_json::Value| {
            price["state"] == "warm"
                && price["threads"] == 1
                && calls
                    .iter()
                    .any(|call| price["gate"] == call.name() && price["what"] == call.target())
        };
        let ns = prices?.iter().find(is_it)?["ns"].as_f64();
        ns.filter(|ns| ns.is_finite() && *ns > 0.0)
    };
    KnownPrices {
        empty: price(&[Call::Empty]),
        stat: price(&[Call::NewfstatatFile, Call::NewfstatatDirectory])
            .or_else(|| price(&[Call::StatxFile, Call::StatxDirectory])),
        miss: price(&[Call::StatxMissing]),
        open_close: price(&[Call::OpenFile, Call::OpenDirectory]),
        xattr: price(&[Call::LgetxattrMissing]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_those_of_warm_calls_on_one_thread() {
        let value = serde_json::json!({"result": {"prices": [
            {"gate": "statx", "what": "a file, by name", "state": "cold", "threads": 1, "ns": 9000.0},
            {"gate": "statx", "what": "a file, by name", "state": "warm", "threads": 2, "ns": 900.0},
            {"gate": "statx", "what": "a file, by name", "state": "warm", "threads": 1, "ns": 350.0},
            {"gate": "openat+close", "what": "a new file", "state": "warm", "threads": 1, "ns": 9000.0},
            {"gate": "getppid", "what": "an empty call", "state": "warm", "threads": 1, "ns": 90},
        ]}});
        assert_eq!(
            given(&value),
            KnownPrices {
                empty: Some(90.0),
                stat: Some(350.0),
                ..KnownPrices::default()
            }
        );
        assert_eq!(given(&serde_json::json!([])), KnownPrices::default());
    }
}
