//! The meters of other programs: one trait ([`Meter`]), one file for each.
//!
//! | room | what is in it |
//! |---|---|
//! | [`auto`] | the cheapest that works here |
//! | [`ptrace`] | for everybody: ptrace(2), with a seccomp filter |
//! | [`find`] | the program that a command names |
//! | [`totals`] | calls added up, in bounded space |

pub mod auto;
mod find;
pub mod ptrace;
pub mod totals;

use crate::call::{Command, Failure, Listener, Meter, Metered, Want};

/// Every meter, the cheapest first.
pub fn all() -> Vec<Box<dyn Meter>> {
    vec![Box::new(ptrace::Ptrace)]
}

/// Runs the command under the meter of this name; `auto` is the cheapest that works here.
///
/// # Errors
/// Why there is no account.
pub fn run(name: &str, command: &Command, want: Want, to: &mut dyn Listener) -> Result<Metered, Failure> {
    let meters = all();
    if name == auto::NAME {
        return auto::run(&meters, command, want, to);
    }
    let Some(meter) = meters.iter().find(|meter| meter.name() == name) else {
        let names: Vec<&str> = meters.iter().map(|meter| meter.name()).collect();
        return Err(Failure::Meter(format!("there is no meter of this name; there are auto, {}", names.join(", "))));
    };
    meter.possible().map_err(Failure::Meter).and_then(|()| meter.run(command, want, to))
}
