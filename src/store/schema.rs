//! The version of the data file: created, checked, brought up to date.
//!
//! `schema.sql` is the whole truth about today's file. [`MIGRATIONS`] only brings older files to it; entries are only
//! ever appended. A file of a later version is refused before anything is written to it.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use crate::error::{Error, Result, Symbol};
use crate::store::{StoreOptions, files};

const SCHEMA: &str = include_str!("../../schema.sql");

/// "agRl": says in the file's header whose it is.
const APPLICATION_ID: i32 = 0x6167_526c;

/// What turns a file of version 1 into one of version 2, and so on.
const MIGRATIONS: &[&str] = &[include_str!("../../migrations/2.sql")];

/// Refuses a file that this version must not touch. Nothing is written to it.
pub(super) fn check_file(path: &Path) -> Result<()> {
    let mut header = [0; 100];
    let read = File::open(path).and_then(|mut file| file.read(&mut header)).unwrap_or(0);
    if read == 0 {
        return Ok(());
    }
    let field = |offset: usize| i32::from_be_bytes(std::array::from_fn(|index| header[offset + index]));
    if read < header.len() || !header.starts_with(b"SQLite format 3\0") {
        return Err(refused(path, "is no SQLite file"));
    }
    match (field(68), field(60)) {
        // An empty file of SQLite, ours before its log was moved into it, or somebody's who marks nothing.
        (0, 0) => {
            let conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
            version(&conn, path, MIGRATIONS).map(|_| ())
        }
        (application_id, version) => check(path, application_id, version, MIGRATIONS),
    }
}

fn check(path: &Path, application_id: i32, version: i32, migrations: &[&str]) -> Result<()> {
    if application_id != APPLICATION_ID {
        return Err(refused(path, "belongs to another program"));
    }
    let known = latest(migrations);
    if version > known {
        return Err(refused(
            path,
            &format!(
                "was written by a later agentrelay (file version {version}, this one knows {known}): run that one"
            ),
        ));
    }
    Ok(())
}

fn refused(path: &Path, reason: &str) -> Error {
    Error::new(Symbol::InvalidRequest, format!("{} {reason}. It was left as it is.", path.display()))
}

fn latest(migrations: &[&str]) -> i32 {
    i32::try_from(migrations.len() + 1).unwrap_or(i32::MAX)
}

/// Creates the schema in an empty file, or brings an older file up to date after keeping a copy of it. Returns where
/// that copy is.
pub(super) fn prepare(conn: &mut Connection, path: &Path, options: &StoreOptions) -> Result<Option<PathBuf>> {
    prepare_with(conn, path, options, SCHEMA, MIGRATIONS)
}

fn prepare_with(
    conn: &mut Connection,
    path: &Path,
    options: &StoreOptions,
    schema: &str,
    migrations: &[&str],
) -> Result<Option<PathBuf>> {
    let before = version(conn, path, migrations)?;
    if before == latest(migrations) {
        return Ok(None);
    }
    let mut kept = None;
    if before > 0 {
        if !options.migrate {
            return Err(refused(path, "was written by an earlier agentrelay; start it once with 'agentrelay serve'"));
        }
        let copy = path.with_extension(format!("v{before}-{}.bak", options.clock.now().ms()));
        files::create_private(&copy).map_err(Error::internal)?;
        conn.execute("VACUUM INTO ?", [copy.to_string_lossy()]).map_err(Error::internal)?;
        kept = Some(copy);
    }
    // Two processes may open a new file at once: the second finds the work done once it has the lock.
    let tx = conn.transaction_with_behavior(rusqlite::TransactionBehavior::Exclusive).map_err(Error::internal)?;
    let found = version(&tx, path, migrations)?;
    if found == 0 {
        tx.execute_batch(schema).map_err(Error::internal)?;
    } else {
        for migration in migrations.iter().skip(usize::try_from(found - 1).unwrap_or(0)) {
            tx.execute_batch(migration).map_err(Error::internal)?;
        }
    }
    tx.pragma_update(None, "application_id", APPLICATION_ID).map_err(Error::internal)?;
    tx.pragma_update(None, "user_version", latest(migrations)).map_err(Error::internal)?;
    tx.commit().map_err(Error::internal)?;
    Ok(kept)
}

fn version(conn: &Connection, path: &Path, migrations: &[&str]) -> Result<i32> {
    let pragma = |name: &str| conn.pragma_query_value(None, name, |row| row.get::<_, i32>(0)).map_err(Error::internal);
    let (application_id, version) = (pragma("application_id")?, pragma("user_version")?);
    // SQLite counts the changes of a file's schema: at 0 there are no tables, and nobody's file it is.
    if (application_id, version, pragma("schema_version")?) != (0, 0, 0) {
        check(path, application_id, version, migrations)?;
    }
    Ok(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "CREATE TABLE notes (text TEXT) STRICT; INSERT INTO notes VALUES ('kept');";

    fn prepare(conn: &mut Connection, path: &Path, migrate: bool, migrations: &[&str]) -> Result<Option<PathBuf>> {
        prepare_with(conn, path, &StoreOptions { migrate, ..StoreOptions::default() }, FIRST, migrations)
    }

    #[test]
    fn an_older_file_is_migrated_in_one_transaction_after_a_copy_was_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("relay.db");
        let mut conn = Connection::open(&path).expect("a file");
        assert_eq!(prepare(&mut conn, &path, false, &[]).expect("created"), None);

        let broken = ["ALTER TABLE notes ADD COLUMN a TEXT;", "ALTER TABLE nowhere ADD COLUMN b TEXT;"];
        prepare(&mut conn, &path, true, &broken).expect_err("the second migration fails");
        assert_eq!(version(&conn, &path, &broken).expect("unchanged"), 1);
        conn.prepare("SELECT a FROM notes").expect_err("the first one was undone");

        let sound = ["ALTER TABLE notes ADD COLUMN a TEXT;", "ALTER TABLE notes ADD COLUMN b TEXT;"];
        prepare(&mut conn, &path, false, &sound).expect_err("only a server migrates");
        assert_eq!(version(&conn, &path, &sound).expect("unchanged"), 1);
        let kept = prepare(&mut conn, &path, true, &sound).expect("migrated").expect("a copy");
        assert_eq!(version(&conn, &path, &sound).expect("current"), 3);
        conn.prepare("SELECT a, b FROM notes").expect("both columns");
        let copy = Connection::open(kept).expect("the copy");
        assert_eq!(version(&copy, &path, &[]).expect("the old version"), 1);
        assert_eq!(copy.query_row("SELECT text FROM notes", [], |row| row.get::<_, String>(0)).expect("a row"), "kept");

        prepare(&mut conn, &path, true, &[]).expect_err("an older program refuses the newer file");
    }
}
