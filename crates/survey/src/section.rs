//! The sections of a survey.

base::named! {
    /// A section of a survey.
    #[derive(PartialOrd, Ord, Hash)]
    Section {
        /// Mount points, and the cost of each way to find them.
        Mounts "mounts",
        /// Experiments on each file system.
        Probe "probe",
        /// The cost of a walk by each engine.
        Walk "walk",
        /// The cost of a dump.
        Dump "dump",
        /// The system calls of a walk.
        Account "account",
        /// The cost of starting programs.
        Startup "startup",
        /// The price of each system call.
        Gates "gates",
        /// The steps of the survey itself.
        Steps "steps",
    }
}
