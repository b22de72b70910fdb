//! The SQL files that are part of the binary. A test fails if a file of the folders is missing here.

/// One SQL file, with `@schema@` and `@channel@` to be filled in.
pub(crate) struct SqlFile {
    /// Its name without `.sql`.
    pub(crate) name: &'static str,
    /// Its text.
    pub(crate) text: &'static str,
}

macro_rules! sql_files {
    ($folder:literal: $($name:literal),* $(,)?) => {
        &[$(SqlFile {
            name: $name,
            text: include_str!(concat!("../sql/", $folder, "/", $name, ".sql")),
        }),*]
    };
}

/// Tables, indexes and views, in order.
pub(crate) const MIGRATIONS: &[SqlFile] = sql_files!["migrations":
    "0002_nodes",
];

/// Functions, in any order: one per file, of the file's name.
pub(crate) const FUNCTIONS: &[SqlFile] = sql_files!["functions":
    "clock",
    "node_join",
    "node_leave",
    "node_reap",
];

/// Takes the place of the function `clock` in schemas made for tests.
pub(crate) const TEST_CLOCK: &SqlFile =
    &SqlFile { name: "clock", text: include_str!("../sql/test/clock.sql") };
