//! `fathom account`: what the calls of a command cost ([`command`]); and what other gates would
//! save, by the memo's model.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::command;
use account::{ErrorKind, Gate, Per, cost, fixed_price, memo, parse, predict, saves};
use report::account::{Choice, Cost, Model};

use crate::cmd::account::args::Account as Args;
use crate::error::{Error, Outcome};
use crate::input::whole;
use crate::out::Out;

pub(super) const SCHEMA: &str = "fathom.account/1";

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    match &args.model {
        Some(file) => model(file.as_deref(), args, out),
        None => command::run(args, out),
    }
}

fn model(file: Option<&OsStr>, args: &Args, out: &Out) -> Outcome {
    let gates = match file {
        Some(file) => read(file)?,
        None => memo::table(),
    };
    let fixed = fixed_price(&gates).unwrap_or_default();
    let choices = choices(&gates, fixed, args);
    let model = Model {
        fixed_ms: fixed,
        options: &choices,
    };
    if out.json {
        out.envelope(SCHEMA, model, &[])?;
    } else {
        out.data(model.to_text(out.table_style()).as_bytes())?;
        if choices.len() < memo::OPTIONS.len() {
            out.note("two_gates is left out: the gates that it replaces are not in the table");
        }
    }
    Ok(0)
}

/// The options, as the memo rounds them if the table is its own.
fn choices(gates: &[Gate], fixed: f64, args: &Args) -> Vec<Choice> {
    let is_memo = memo::is_table(gates);
    let today = cost(gates, fixed);
    let mix = Per {
        dir: args.mix.0,
        file: args.mix.1,
    };
    let option = |choice: &memo::Choice| {
        let then = predict(gates, fixed, &choice.proposal)?;
        let saved = saves(&today, &then, mix, args.share);
        let of_system = saved * args.system / 100.0;
        let shown = if is_memo { memo::rounded(&then) } else { then };
        let whole = |percent: f64| if is_memo { percent.round() } else { percent };
        Some(Choice {
            name: choice.proposal.name,
            dir: shown_cost(shown.dir),
            file: shown_cost(shown.file),
            saves_percent: whole(saved),
            printed: choice.printed.filter(|_| is_memo),
            saves_system_percent: whole(of_system),
            printed_system: choice.printed_system.filter(|_| is_memo),
        })
    };
    memo::OPTIONS.iter().filter_map(option).collect()
}

pub(super) fn shown_cost(cost: account::Cost) -> Cost {
    Cost {
        overhead: cost.overhead,
        useful: cost.useful,
    }
}

fn read(file: &OsStr) -> Result<Vec<Gate>, Error> {
    const MOST: usize = 1 << 20;
    const NEXT: &str = "give a file with a table of gates; fathom account --help names its columns";
    let path = file.as_bytes();
    let text = whole(path, MOST, "cannot read table", NEXT)?;
    let wrong = |what: &dyn std::fmt::Display| {
        Error::read("cannot use table", path, what.to_string(), NEXT)
    };
    let text = str::from_utf8(&text).map_err(|_| wrong(&ErrorKind::NotUtf8))?;
    parse(text).map_err(|e| wrong(&e))
}
