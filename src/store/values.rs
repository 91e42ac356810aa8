//! How the domain's values stand in the file. A word that this version does not know is an error, never a guess.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use serde_json::value::RawValue;

use crate::domain::agent::Handle;
use crate::domain::event::EventKind;
use crate::domain::id::{AgentId, DeadLetterId, KeyId, MessageId, ThreadId};
use crate::domain::json::Document;
use crate::domain::time::Timestamp;
use crate::domain::transition::State;

macro_rules! stored {
    ($($type:ty: $value:ident => $from:expr, $self:ident => $to:expr;)*) => {$(
        impl FromSql for $type {
            fn column_result($value: ValueRef<'_>) -> FromSqlResult<Self> {
                $from
            }
        }

        impl ToSql for $type {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                let $self = self;
                Ok(ToSqlOutput::from($to))
            }
        }
    )*};
}

stored! {
    Timestamp: value => value.as_i64().map(Timestamp::from_ms), time => time.ms();
    Handle: value => String::column_result(value).map(Handle::stored), handle => handle.as_str();
    State: value => State::from_name(value.as_str()?).ok_or(FromSqlError::InvalidType), state => state.name();
    EventKind: value => EventKind::from_name(value.as_str()?).ok_or(FromSqlError::InvalidType), kind => kind.name();
    AgentId: value => id(value).map(AgentId::from_bytes), id => id.to_bytes().to_vec();
    KeyId: value => id(value).map(KeyId::from_bytes), id => id.to_bytes().to_vec();
    ThreadId: value => id(value).map(ThreadId::from_bytes), id => id.to_bytes().to_vec();
    MessageId: value => id(value).map(MessageId::from_bytes), id => id.to_bytes().to_vec();
    DeadLetterId: value => id(value).map(DeadLetterId::from_bytes), id => id.to_bytes().to_vec();
}

fn id(value: ValueRef<'_>) -> FromSqlResult<[u8; 16]> {
    FromSql::column_result(value)
}

/// A document as it was stored. `Document` is another crate's type, so this is a wrapper around it.
pub(super) struct Stored(pub(super) Document);

impl FromSql for Stored {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let text = String::column_result(value)?;
        RawValue::from_string(text).map(Stored).map_err(FromSqlError::other)
    }
}

/// The documents of an array as it was stored.
pub(super) struct StoredList(pub(super) Vec<Document>);

impl FromSql for StoredList {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        serde_json::from_str(value.as_str()?).map(StoredList).map_err(FromSqlError::other)
    }
}
