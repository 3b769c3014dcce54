//! Envelope encryption: each value is encrypted with a fresh 256-bit data key, and that with a master key; both with
//! AES-256-GCM. `secrets` stores the result.
//!
//! Invariants: nonces are random and precede the ciphertext; workspace and name are authenticated with both, so that
//! neither decrypts anywhere else; a failure does not reveal its cause.

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::rand;
use uuid::Uuid;
use zeroize::Zeroizing;

use super::{MasterKeys, Plaintext, SecretError};

/// Size of a master or data key, in bytes.
pub const KEY_BYTES: usize = 32;

/// The kind of encrypted text, so that a data key can't pass for a value. Ends with a byte that otherwise occurs in
/// neither.
const VALUE: &[u8] = b"rejoin secret value 1\0";
const DATA_KEY: &[u8] = b"rejoin data key 1\0";

/// A secret as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    /// The master key that encrypts the data key.
    pub key_id: String,
    pub wrapped_key: Vec<u8>,
    pub ciphertext: Vec<u8>,
}

/// Encrypts a value with a new data key, and that with the first master key.
///
/// # Errors
/// The system provides no random numbers.
pub fn seal(keys: &MasterKeys, workspace_id: Uuid, name: &str, value: &Plaintext) -> Result<Sealed, SecretError> {
    let mut data_key = Zeroizing::new([0_u8; KEY_BYTES]);
    rand::fill(&mut *data_key).map_err(|_| SecretError::Sealing)?;
    let cipher = cipher(&*data_key).ok_or(SecretError::Sealing)?;
    let ciphertext = encrypt(&cipher, &bound_to(VALUE, workspace_id, name), value.expose());
    let wrapped_key = encrypt(keys.first(), &bound_to(DATA_KEY, workspace_id, name), &*data_key);
    Ok(Sealed {
        key_id: keys.first_id().to_owned(),
        wrapped_key: wrapped_key.ok_or(SecretError::Sealing)?,
        ciphertext: ciphertext.ok_or(SecretError::Sealing)?,
    })
}

/// Decrypts what [`seal`] has encrypted for the same workspace and name.
///
/// # Errors
/// Its master key is missing, or the ciphertext is invalid.
pub fn open(keys: &MasterKeys, workspace_id: Uuid, name: &str, sealed: &Sealed) -> Result<Plaintext, SecretError> {
    let tampered = || SecretError::Tampered(name.to_owned());
    let data_key = unwrap(keys, workspace_id, name, &sealed.key_id, &sealed.wrapped_key)?;
    let cipher = cipher(&data_key).ok_or_else(tampered)?;
    decrypt(&cipher, &bound_to(VALUE, workspace_id, name), &sealed.ciphertext)
        .map(Plaintext)
        .ok_or_else(tampered)
}

/// Re-encrypts the same data key with the first master key.
///
/// # Errors
/// Its master key is missing, or the ciphertext is invalid.
pub fn rewrap(
    keys: &MasterKeys,
    workspace_id: Uuid,
    name: &str,
    key_id: &str,
    wrapped_key: &[u8],
) -> Result<Vec<u8>, SecretError> {
    let data_key = unwrap(keys, workspace_id, name, key_id, wrapped_key)?;
    encrypt(keys.first(), &bound_to(DATA_KEY, workspace_id, name), &data_key).ok_or(SecretError::Sealing)
}

fn unwrap(
    keys: &MasterKeys,
    workspace_id: Uuid,
    name: &str,
    key_id: &str,
    wrapped_key: &[u8],
) -> Result<Zeroizing<Vec<u8>>, SecretError> {
    let master = keys.get(key_id).ok_or_else(|| SecretError::UnknownKey {
        name: name.to_owned(),
        key_id: key_id.to_owned(),
    })?;
    decrypt(master, &bound_to(DATA_KEY, workspace_id, name), wrapped_key)
        .ok_or_else(|| SecretError::Tampered(name.to_owned()))
}

/// None: the key has a wrong length.
pub(super) fn cipher(key: &[u8]) -> Option<RandomizedNonceKey> {
    RandomizedNonceKey::new(&AES_256_GCM, key).ok()
}

/// The authenticated data of a ciphertext. Unambiguous: only the last part, the name, has variable length.
fn bound_to(purpose: &[u8], workspace_id: Uuid, name: &str) -> Vec<u8> {
    [purpose, workspace_id.as_bytes(), name.as_bytes()].concat()
}

/// Returns nonce, ciphertext, tag. None: no random numbers.
fn encrypt(cipher: &RandomizedNonceKey, bound_to: &[u8], text: &[u8]) -> Option<Vec<u8>> {
    // With capacity for the tag: a reallocation would leave the plaintext in freed memory.
    let mut sealed = Vec::with_capacity(text.len() + AES_256_GCM.tag_len());
    sealed.extend_from_slice(text);
    let nonce = cipher.seal_in_place_append_tag(Aad::from(bound_to), &mut sealed).ok()?;
    let nonce: &[u8; NONCE_LEN] = nonce.as_ref();
    Some([nonce.as_slice(), &sealed].concat())
}

/// None: encrypted with another key, for another purpose, or corrupted.
fn decrypt(cipher: &RandomizedNonceKey, bound_to: &[u8], sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let (nonce, sealed) = sealed.split_at_checked(NONCE_LEN)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
    let mut text = Zeroizing::new(sealed.to_vec());
    let length = cipher.open_in_place(nonce, Aad::from(bound_to), &mut text).ok()?.len();
    text.truncate(length);
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROJECT: Uuid = Uuid::from_u128(1);

    fn keys(listed: &str) -> MasterKeys {
        let zeros = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
        let ones = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
        MasterKeys::parse(&listed.replace('0', zeros).replace('1', ones)).unwrap()
    }

    fn value() -> Plaintext {
        Plaintext::new(b"a value of some length, and more".to_vec())
    }

    #[test]
    fn what_was_sealed_opens_and_no_two_are_alike() {
        let keys = keys("a:0");
        let [one, two] = [0, 1].map(|_| seal(&keys, PROJECT, "name", &value()).unwrap());
        assert_ne!(one.ciphertext, two.ciphertext);
        assert_ne!(one.wrapped_key, two.wrapped_key);
        assert_eq!((one.wrapped_key.len(), one.ciphertext.len()), (60, 12 + 32 + 16));
        for sealed in [one, two] {
            let opened = open(&keys, PROJECT, "name", &sealed).unwrap();
            assert_eq!(opened.expose(), value().expose());
        }
    }

    #[test]
    fn no_flipped_bit_other_place_or_other_key_opens() {
        let mine = keys("a:0");
        let sealed = seal(&mine, PROJECT, "name", &value()).unwrap();
        let refused = |keys: &MasterKeys, workspace: Uuid, name: &str, sealed: &Sealed| {
            matches!(open(keys, workspace, name, sealed), Err(SecretError::Tampered(_)))
        };
        for bit in 0..sealed.ciphertext.len() * 8 {
            let mut flipped = sealed.clone();
            flipped.ciphertext[bit / 8] ^= 1 << (bit % 8);
            assert!(refused(&mine, PROJECT, "name", &flipped), "bit {bit} of the value");
        }
        for bit in 0..sealed.wrapped_key.len() * 8 {
            let mut flipped = sealed.clone();
            flipped.wrapped_key[bit / 8] ^= 1 << (bit % 8);
            assert!(refused(&mine, PROJECT, "name", &flipped), "bit {bit} of the data key");
        }
        for length in 0..sealed.ciphertext.len() {
            let mut cut = sealed.clone();
            cut.ciphertext.truncate(length);
            assert!(refused(&mine, PROJECT, "name", &cut), "cut to {length}");
        }
        assert!(refused(&mine, Uuid::from_u128(2), "name", &sealed));
        assert!(refused(&mine, PROJECT, "nam", &sealed));
        assert!(
            refused(&keys("a:1"), PROJECT, "name", &sealed),
            "another key of that id"
        );
        // The data key of one secret with the value of another.
        let other = seal(&mine, PROJECT, "other", &value()).unwrap();
        let mixed = Sealed {
            wrapped_key: other.wrapped_key,
            ..sealed.clone()
        };
        assert!(refused(&mine, PROJECT, "name", &mixed));
        let unknown = open(&keys("b:0"), PROJECT, "name", &sealed).unwrap_err();
        assert!(
            matches!(&unknown, SecretError::UnknownKey { key_id, .. } if key_id == "a"),
            "{unknown}"
        );
    }

    #[test]
    fn a_data_key_moves_under_another_master_key() {
        let sealed = seal(&keys("old:0"), PROJECT, "name", &value()).unwrap();
        let both = keys("new:1,old:0");
        let wrapped_key = rewrap(&both, PROJECT, "name", &sealed.key_id, &sealed.wrapped_key).unwrap();
        let moved = Sealed {
            key_id: "new".to_owned(),
            wrapped_key,
            ..sealed
        };
        let opened = open(&keys("new:1"), PROJECT, "name", &moved).unwrap();
        assert_eq!(opened.expose(), value().expose());
    }
}
