//! Keys: the secrets by which agents are known.
//!
//! A [`Key`] is the secret and prints nothing of itself; a [`KeyHash`] is all that the data file holds.

use std::fmt;

use data_encoding::BASE32_NOPAD;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::domain::agent::Handle;
use crate::domain::id::{KeyId, fill_random};
use crate::domain::time::Timestamp;

/// What every key begins with.
const PREFIX: &str = "ah_live_";
/// 160 random bits.
const RANDOM_BYTES: usize = 20;
/// The same in base32 (RFC 4648), in lower case.
const RANDOM_CHARACTERS: usize = 32;
/// How much of a key a list shows: the fixed prefix and four characters.
const SHOWN: usize = PREFIX.len() + 4;

/// A secret, on its way to the one who may hold it. `Debug` and `Display` do not show it.
#[derive(Clone)]
pub struct Key(String);

impl Key {
    /// Mints a key.
    pub fn mint() -> Key {
        let mut random = [0; RANDOM_BYTES];
        fill_random(&mut random);
        Key(format!("{PREFIX}{}", BASE32_NOPAD.encode(&random).to_ascii_lowercase()))
    }

    /// Reads a key. Anything that no mint could have made is none.
    pub fn parse(text: &str) -> Option<Key> {
        let random = text.strip_prefix(PREFIX)?;
        let base32 = |byte: u8| matches!(byte, b'a'..=b'z' | b'2'..=b'7');
        (random.len() == RANDOM_CHARACTERS && random.bytes().all(base32)).then(|| Key(text.to_owned()))
    }

    /// The secret itself, to hand over once.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The beginning, by which people recognise a key in a list.
    pub fn shown_prefix(&self) -> &str {
        &self.0[..SHOWN]
    }

    /// What the data file keeps.
    pub fn hash(&self) -> KeyHash {
        KeyHash(Sha256::digest(self.0.as_bytes()).into())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// SHA-256 of a key. The key is 160 random bits, so no salt and no slow hash is needed.
#[derive(Clone, Debug)]
pub struct KeyHash([u8; 32]);

impl KeyHash {
    /// The form in the data file.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Compares in constant time.
    pub fn matches(&self, stored: &[u8]) -> bool {
        self.0.ct_eq(stored).into()
    }
}

/// What a list of keys shows.
#[derive(Clone, Debug)]
pub struct KeyRecord {
    /// The key's id.
    pub id: KeyId,
    /// Whose key it is.
    pub agent: Handle,
    /// The beginning of the key.
    pub prefix: String,
    /// What its owner calls it.
    pub label: Option<String>,
    /// When it was minted.
    pub created_at: Timestamp,
    /// When it stops working by itself.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
    /// When it was last used, to the minute.
    pub last_used_at: Option<Timestamp>,
}

impl KeyRecord {
    /// `active`, `expired` or `revoked`.
    pub fn status(&self, now: Timestamp) -> &'static str {
        match self {
            KeyRecord { revoked_at: Some(_), .. } => "revoked",
            KeyRecord { expires_at: Some(end), .. } if *end <= now => "expired",
            _ => "active",
        }
    }
}

/// How a key is minted.
#[derive(Clone, Debug, Default)]
pub struct KeyOptions {
    /// What its owner calls it.
    pub label: Option<String>,
    /// When it stops working by itself.
    pub expires_at: Option<Timestamp>,
}

/// A key just minted: the only time that the secret exists outside its holder.
#[derive(Clone, Debug)]
pub struct MintedKey {
    /// The key's id.
    pub id: KeyId,
    /// The secret.
    pub key: Key,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minted_key_is_read_back_and_never_printed() {
        let key = Key::mint();
        assert_eq!(key.reveal().len(), PREFIX.len() + 32);
        let read = Key::parse(key.reveal()).expect("a key");
        assert!(read.hash().matches(key.hash().as_bytes()));
        assert!(!Key::mint().hash().matches(key.hash().as_bytes()));
        assert!(!format!("{key:?}").contains(&key.reveal()[PREFIX.len()..]));
    }

    #[test]
    fn anything_that_no_mint_makes_is_no_key() {
        let key = Key::mint();
        let upper = key.reveal().to_ascii_uppercase();
        for text in [
            "",
            "ah_live_",
            &key.reveal()[1..],
            &upper,
            &format!("{}a", key.reveal()),
            "ah_live_11111111111111111111111111111111",
        ] {
            assert!(Key::parse(text).is_none(), "{text}");
        }
    }
}
