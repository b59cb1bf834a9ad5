//! The path searches of a command: the names that it looks up, and in which directories; what the
//! same start would cost on a network file system; and what would make it cheaper.
//!
//! | module | what is in it |
//! |---|---|
//! | `report` | the result: everything below, put together |
//! | `kind` | what a search is for, and counts by kind |
//! | `lookup` | which calls are lookups, and the directory that a name is looked up in |
//! | `environment` | the variables of a process that its searches depend on |
//! | `classify` | the kind of a lookup |
//! | `family` | the language or purpose of a program |
//! | `search_name` | the name that a search is for |
//! | `group` | the search that a lookup belongs to |
//! | `recorder` | records the calls that a meter reports |
//! | `trace` | what is recorded |
//! | `tree` | the file tree and its file systems, as the model needs them |
//! | `request` | the requests of a network file system, their prices, and what a client caches |
//! | `client` | a client of a network file system: what it has cached, and the requests that it makes |
//! | `readahead` | the reads of a file that the kernel's readahead makes |
//! | `model` | the requests of a start |
//! | `calibrate` | prices and client behavior, measured on a mount |
//! | `load` | many nodes that start at once |
//! | `predict` | what a start would take on a network file system |
//! | `order` | the best order of directories |
//! | `path` | a better PATH |
//! | `change` | what to change |
//! | `shorten` | shorter lists of directories, in variables and in programs |
//! | `bytecode` | Python modules that are compiled at each start |
//! | `fixes` | changes that would help, and what each saves |
//! | `startup` | what starting programs costs on this machine |
//! | `warning` | why a report is incomplete |
#![forbid(unsafe_code)]

mod bytecode;
mod calibrate;
mod change;
mod classify;
mod client;
mod environment;
mod family;
mod fixes;
mod group;
mod kind;
mod load;
mod lookup;
mod model;
mod order;
mod path;
mod predict;
mod readahead;
mod recorder;
mod report;
mod request;
mod search_name;
mod shorten;
mod startup;
mod trace;
mod tree;
mod warning;

use meter::call::Command;
use meter::names::Inherited;

use recorder::Recorder;

pub use change::{Change, RunpathChange};
pub use environment::Environment;
pub use fixes::{Fix, is_worthwhile};
pub use group::{Search, Try};
pub use kind::{Count, Kind, KindCounts};
pub use load::StartTime;
pub use model::StartRequests;
pub use path::{ElementState, PathProposal, quoted};
pub use predict::{Prediction, RoundTrip, RttSource, SearchOptions};
pub use report::{DirectoryReport, SearchReport};
pub use request::{ASSUMED_RTT, ClientBehavior, Prices, Request, Requests};
pub use startup::{PathElement, ProgramStart, StartupReport, path_elements};
pub use trace::{DirectoryLookups, Execution, Shim, Totals, Trace};
pub use tree::RemoteScope;
pub use warning::WarningKind;

/// Runs a command under the meter of this name, and reports on its searches.
///
/// # Errors
/// Those of the meter.
pub fn search(
    command: &Command,
    meter: &str,
    environment: &Environment,
    options: &SearchOptions,
) -> Result<SearchReport, meter::Error> {
    let mut recorder = Recorder::new(Inherited::from_this_process(), environment.clone());
    let metered = meter::run_exact(meter, command, &mut recorder)?;
    let trace = recorder.finish();
    Ok(SearchReport::new(trace, metered, environment, options))
}
