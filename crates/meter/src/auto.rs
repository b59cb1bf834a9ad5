//! The cheapest meter that works here. It says which, and why; when one fails to start, the next is
//! tried.

use crate::call::{Command, Failure, Listener, Meter, Metered, Want};

/// The name that stands for it.
pub const NAME: &str = "auto";

/// Runs the command by the first of `meters` that is possible here and starts.
///
/// # Errors
/// That the command cannot be run; what stands in the way of each meter, in one line; or what went
/// wrong when the command had begun.
pub fn run(
    meters: &[Box<dyn Meter>],
    command: &Command,
    want: Want,
    to: &mut dyn Listener,
) -> Result<Metered, Failure> {
    let mut refused: Vec<String> = Vec::new();
    for meter in meters {
        let done = meter
            .possible()
            .map_err(Failure::Meter)
            .and_then(|()| meter.run(command, want, to));
        match done {
            Err(Failure::Meter(why)) => refused.push(format!("{}: {why}", meter.name())),
            Err(failure) => return Err(failure),
            Ok(mut metered) => {
                metered.why = match &refused[..] {
                    [] => "it is the cheapest, and works here".to_owned(),
                    refused => format!("the cheapest that works here ({})", refused.join("; ")),
                };
                if !meter.sees_names() {
                    metered.why.push_str("; it sees no names");
                }
                return Ok(metered);
            }
        }
    }
    Err(Failure::Meter(format!(
        "there is no way to meter here: {}",
        refused.join("; ")
    )))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::call::Ended;

    /// A meter that does what it is told.
    struct Told(&'static str, Result<(), String>, Result<(), Failure>);

    impl Meter for Told {
        fn name(&self) -> &'static str {
            self.0
        }
        fn possible(&self) -> Result<(), String> {
            self.1.clone()
        }
        fn run(&self, _: &Command, _: Want, _: &mut dyn Listener) -> Result<Metered, Failure> {
            self.2.clone().map(|()| Metered {
                meter: self.0,
                why: String::new(),
                warnings: Vec::new(),
                totals: Vec::new(),
                told: 0,
                unfinished: 0,
                lost: 0,
                overhead: Duration::ZERO,
                ended: Ended::Exited(0),
                real: Duration::ZERO,
                user: Duration::ZERO,
                sys: Duration::ZERO,
            })
        }
    }

    fn auto(meters: Vec<Told>) -> Result<(&'static str, String), Failure> {
        let meters: Vec<Box<dyn Meter>> = meters
            .into_iter()
            .map(|meter| Box::new(meter) as Box<dyn Meter>)
            .collect();
        let command = Command {
            program: c"/bin/true".to_owned(),
            args: Vec::new(),
        };
        run(&meters, &command, Want::Totals, &mut ()).map(|metered| (metered.meter, metered.why))
    }

    #[test]
    fn the_first_that_starts_is_taken_and_says_why() {
        let fails = || Err(Failure::Meter("it broke".to_owned()));
        let no = || Err("it is forbidden".to_owned());
        let (meter, why) = auto(vec![
            Told("a", no(), Ok(())),
            Told("b", Ok(()), fails()),
            Told("c", Ok(()), Ok(())),
        ])
        .unwrap();
        assert_eq!(
            (meter, &why[..]),
            (
                "c",
                "the cheapest that works here (a: it is forbidden; b: it broke)"
            )
        );
        assert_eq!(
            auto(vec![Told("a", Ok(()), Ok(()))]).unwrap().1,
            "it is the cheapest, and works here"
        );
        let none = auto(vec![Told("a", no(), Ok(())), Told("b", Ok(()), fails())]).unwrap_err();
        assert_eq!(
            none,
            Failure::Meter(
                "there is no way to meter here: a: it is forbidden; b: it broke".to_owned()
            )
        );
    }

    #[test]
    fn a_command_that_cannot_be_run_or_has_begun_is_not_tried_again() {
        let missing = || Failure::Command("cannot find it".to_owned(), 127);
        let late = || Failure::Late("it broke on the way".to_owned());
        for failure in [missing(), late()] {
            let meters = vec![
                Told("a", Ok(()), Err(failure.clone())),
                Told("b", Ok(()), Ok(())),
            ];
            assert_eq!(auto(meters).unwrap_err(), failure);
        }
    }
}
