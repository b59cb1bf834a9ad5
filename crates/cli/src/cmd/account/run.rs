//! `fathom account`: runs a command ([`command`]), or applies the cost model of the 1974 memo.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::command;
use super::show::SCHEMA;
use super::show::memo::{Model, model_text};
use account::{Gate, InputFault, PerKind, fixed_price, memo, parse};

use crate::cmd::account::args::Account as Args;
use crate::error::{Error, Outcome};
use crate::input::whole;
use crate::out::Out;

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    match &args.model {
        Some(file) => model(file.as_deref(), args, out),
        None => {
            refuse_options_of_model(args)?;
            command::run(args, out)
        }
    }
}

fn refuse_options_of_model(args: &Args) -> Result<(), Error> {
    let given = [
        ("--mix", args.mix.is_some()),
        ("--share", args.share.is_some()),
        ("--system-share", args.system_share.is_some()),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(Error::new(format!("{option} requires --model"))
            .with_hint("give --model in place of the command")),
        None => Ok(()),
    }
}

fn model(file: Option<&OsStr>, args: &Args, out: &Out) -> Outcome {
    let gates = match file {
        Some(file) => read(file)?,
        None => memo::table(),
    };
    let fixed = fixed_price(&gates).unwrap_or_default();
    let (dir, file) = args.mix.unwrap_or((40.0, 60.0));
    let shares = memo::Shares {
        mix: PerKind { dir, file },
        backup: args.share.unwrap_or(memo::SHARE),
        system: args.system_share.unwrap_or(memo::SYSTEM),
    };
    let columns = memo::columns(&gates, fixed, &shares);
    let model = Model {
        fixed_ms: fixed,
        columns: &columns,
    };
    out.report(SCHEMA, &model, &[], || {
        out.data(model_text(&model, out.table_style()))?;
        if columns.len() < memo::OPTIONS.len() {
            out.note("option two_gates skipped: the table has no calls that it replaces");
        }
        Ok(())
    })
}

fn read(file: &OsStr) -> Result<Vec<Gate>, Error> {
    const MOST: usize = 1 << 20;
    const NEXT: &str = "give a CSV table of calls; fathom account --help lists its columns";
    let path = file.as_bytes();
    let text = whole(path, MOST, "cannot read the table of calls in", NEXT)?;
    let wrong = |what: &dyn std::fmt::Display| {
        Error::read(
            "cannot use the table of calls in",
            path,
            what.to_string(),
            NEXT,
        )
    };
    let text = str::from_utf8(&text).map_err(|_| wrong(&InputFault::NotUtf8))?;
    parse(text).map_err(|e| wrong(&e))
}
