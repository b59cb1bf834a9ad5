//! Meter `auto`: the cheapest meter that works on this machine.

use crate::call::{Meter, MeterReason, Metered};
use crate::error::{Error, Unavailable};

/// The name of the automatic choice, as in `--meter auto`.
pub const NAME: &str = "auto";

/// Runs `start` with the first of `meters` that works on this machine.
pub(crate) fn run(
    meters: &[Box<dyn Meter>],
    mut start: impl FnMut(&dyn Meter) -> Result<Metered, Error>,
) -> Result<Metered, Error> {
    let mut refused = Vec::new();
    for meter in meters {
        match run_checked(&**meter, &mut start) {
            Err(Error::Unavailable(why)) => refused.push((meter.name(), why)),
            Err(error) => return Err(error),
            Ok(mut metered) => {
                metered.choice = MeterReason::Cheapest(refused);
                return Ok(metered);
            }
        }
    }
    Err(Unavailable::NoMeter(refused).into())
}

/// Runs `start` with this meter if its check passes.
pub(crate) fn run_checked(
    meter: &dyn Meter,
    start: impl FnOnce(&dyn Meter) -> Result<Metered, Error>,
) -> Result<Metered, Error> {
    meter.check()?;
    start(meter)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::attach::Attach;
    use crate::call::{Command, CommandEnd, Listener};
    use crate::error::{CommandError, MeterStep};
    use gate::Errno;

    /// A meter with a given name and given results of `check` and `run`, for tests.
    struct FakeMeter(&'static str, Result<(), Unavailable>, Result<(), Error>);

    impl Meter for FakeMeter {
        fn name(&self) -> &'static str {
            self.0
        }
        fn check(&self) -> Result<(), Unavailable> {
            self.1.clone()
        }
        fn run(&self, _: &Command, _: u64, _: &mut dyn Listener) -> Result<Metered, Error> {
            self.2.clone().map(|()| Metered {
                meter: self.0,
                choice: MeterReason::Requested,
                warnings: Vec::new(),
                totals: Vec::new(),
                unfinished: 0,
                lost: 0,
                overhead: Duration::ZERO,
                ended: CommandEnd::Exited(0),
                real: Duration::ZERO,
                user: Duration::ZERO,
                sys: Duration::ZERO,
            })
        }
        fn attach(&self, _: &Attach<'_>, _: u64, _: &mut dyn Listener) -> Result<Metered, Error> {
            Err(Unavailable::OnlyProcesses.into())
        }
    }

    fn auto(meters: Vec<FakeMeter>) -> Result<(&'static str, String), Error> {
        let meters: Vec<Box<dyn Meter>> = meters
            .into_iter()
            .map(|meter| Box::new(meter) as Box<dyn Meter>)
            .collect();
        let command = Command {
            program: c"/bin/true".to_owned(),
            args: Vec::new(),
        };
        let start = |meter: &dyn Meter| meter.run(&command, 0, &mut ());
        run(&meters, start).map(|metered| (metered.meter, metered.choice.to_string()))
    }

    #[test]
    fn the_first_meter_that_starts_is_used_and_the_reason_is_reported() {
        let broken = || Err(Unavailable::BpfObject.into());
        let old = || Err(Unavailable::NeedsLinux("5.8"));
        let (meter, why) = auto(vec![
            FakeMeter("a", old(), Ok(())),
            FakeMeter("b", Ok(()), broken()),
            FakeMeter("c", Ok(()), Ok(())),
        ])
        .unwrap();
        assert_eq!(
            (meter, &why[..]),
            (
                "c",
                "it has the lowest overhead of those that work here (a: requires Linux 5.8; b: cannot link the BPF programs)"
            )
        );
        assert_eq!(
            auto(vec![FakeMeter("a", Ok(()), Ok(()))]).unwrap().1,
            "it has the lowest overhead"
        );
        let none = auto(vec![
            FakeMeter("a", old(), Ok(())),
            FakeMeter("b", Ok(()), broken()),
        ])
        .unwrap_err();
        assert_eq!(
            none.to_string(),
            "no meter works here: a: requires Linux 5.8; b: cannot link the BPF programs"
        );
    }

    #[test]
    fn no_other_meter_is_tried_after_the_command_failed_or_began() {
        let missing = || Error::Command(CommandError::Empty);
        let late = || Error::Late(MeterStep::Wait, Errno::EIO);
        for failure in [missing(), late()] {
            let meters = vec![
                FakeMeter("a", Ok(()), Err(failure.clone())),
                FakeMeter("b", Ok(()), Ok(())),
            ];
            assert_eq!(auto(meters).unwrap_err(), failure);
        }
    }
}
