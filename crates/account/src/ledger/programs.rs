//! Indexes of the programs that processes execute.

use foldhash::{HashMap, HashMapExt};

/// The programs that processes execute. Index 0 is an unknown program.
#[derive(Debug)]
pub(super) struct Programs {
    pub(super) names: Vec<Vec<u8>>,
    numbers: HashMap<Vec<u8>, u16>,
    pub(super) processes: HashMap<u32, u16>,
}

impl Programs {
    pub(super) fn new() -> Programs {
        Programs {
            names: vec![Vec::new()],
            numbers: HashMap::new(),
            processes: HashMap::new(),
        }
    }

    /// The index of a program, which is added if it is new.
    pub(super) fn enter(&mut self, program: &[u8]) -> u16 {
        if let Some(known) = self.numbers.get(program) {
            return *known;
        }
        let number = u16::try_from(self.names.len()).unwrap_or(0);
        if number > 0 {
            self.names.push(program.to_vec());
            self.numbers.insert(program.to_vec(), number);
        }
        number
    }

    pub(super) fn exec(&mut self, pid: u32, program: &[u8]) {
        let number = self.enter(program);
        self.processes.insert(pid, number);
    }

    pub(super) fn fork(&mut self, parent: u32, pid: u32) {
        self.processes.insert(pid, self.executed_by(parent));
    }

    pub(super) fn executed_by(&self, pid: u32) -> u16 {
        self.processes.get(&pid).copied().unwrap_or(0)
    }
}
