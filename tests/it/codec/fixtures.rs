//! Every recorded message, in both encodings, against what `tests/fixtures/mongrel2/expected.json` says it means.

use std::collections::BTreeMap;
use std::path::PathBuf;

use lurcher::proto::{Envelope, Event, HeaderBlock, Message, Value, classify, upload_paths};

/// The uuid of the recorded server.
pub(super) const UUID: &[u8] = b"34f9ceee-cd52-4b7f-b197-88bf2f0ec378";

/// The two encodings: its name in the table, the end of the file names.
const ENCODINGS: [(&str, &str); 2] = [("json", ".bin"), ("tnet", ".tnet.bin")];

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/mongrel2")
}

/// All recordings of one folder (`""`, `"client"`, `"responses"`), by file name.
pub(super) fn recordings(under: &str) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(folder().join(under)).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "bin") {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            all.insert(name, std::fs::read(path).unwrap());
        }
    }
    all
}

fn expectations() -> serde_json::Map<String, serde_json::Value> {
    let text = std::fs::read_to_string(folder().join("expected.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// A text of the table as bytes: latin-1, or a pattern repeated up to a size, or one text per encoding.
fn bytes(text: &serde_json::Value, encoding: &str) -> Vec<u8> {
    if let Some(text) = text.as_str() {
        return text.chars().map(|char| u8::try_from(u32::from(char)).unwrap()).collect();
    }
    if let Some(text) = text.get(encoding) {
        return bytes(text, encoding);
    }
    let pattern = bytes(&text["repeat"], encoding);
    let size = usize::try_from(text["bytes"].as_u64().unwrap()).unwrap();
    pattern.into_iter().cycle().take(size).collect()
}

/// The word for a kind of message in the table.
fn kind(message: Message) -> String {
    match message {
        Message::Http => "http",
        Message::UploadStart => "upload-start",
        Message::UploadDone => "upload-done",
        Message::StreamFirst => "stream-first",
        Message::StreamPart => "stream-part",
        Message::WebSocketHandshake => "websocket-handshake",
        Message::WebSocketFrame => "websocket-frame",
        Message::JsonSocket => "json-socket",
        Message::XmlSocket => "xml-socket",
        Message::Event(Event::Disconnect) => "disconnect",
        Message::Event(Event::Credits(bytes)) => return format!("credits {bytes}"),
        Message::Event(Event::Unknown) => "unknown event",
    }
    .to_owned()
}

#[test]
fn every_recording_means_what_the_table_says() {
    let recordings = recordings("");
    let expectations = expectations();
    assert_eq!(recordings.len(), 2 * expectations.len());
    assert_eq!(expectations.len(), 90);
    for (name, expected) in &expectations {
        for (encoding, suffix) in ENCODINGS {
            let file = format!("{name}{suffix}");
            let envelope =
                Envelope::parse(&recordings[&file]).unwrap_or_else(|e| panic!("{file}: {e}"));
            let headers = envelope.headers().unwrap_or_else(|e| panic!("{file}: {e}"));
            assert_eq!(matches!(envelope.headers, HeaderBlock::Json(_)), encoding == "json");
            assert_eq!(envelope.sender, UUID, "{file}");
            assert_eq!(u64::from(envelope.conn.0), expected["id"][encoding], "{file}");
            assert_eq!(envelope.path, bytes(&expected["path"], encoding), "{file}");
            assert_eq!(envelope.body, bytes(&expected["body"], encoding), "{file}");
            let message = classify(&envelope, &headers);
            assert_eq!(kind(message), expected["kind"].as_str().unwrap(), "{file}");
            assert!(!envelope.looks_plain() || message == Message::Http, "{file}");

            let table = expected["headers"].as_object().unwrap();
            assert_eq!(headers.len(), table.len(), "{file}");
            for (key, value) in table {
                let key = bytes(&key.as_str().into(), encoding);
                let place = || format!("{file}: {}", key.escape_ascii());
                let found = headers.get(&key).unwrap_or_else(|| panic!("{} is missing", place()));
                if let Some(list) = value.as_array() {
                    let list: Vec<_> = list.iter().map(|text| bytes(text, encoding)).collect();
                    assert!(matches!(found, Value::Many(_)), "{}", place());
                    assert!(found.iter().eq(list.iter()), "{}", place());
                } else {
                    assert_eq!(
                        found.single(),
                        Some(bytes(value, encoding).as_slice()),
                        "{}",
                        place()
                    );
                }
            }
        }
    }
}

#[test]
fn both_encodings_agree() {
    let recordings = recordings("");
    for name in expectations().keys() {
        let [json, tnet] = ENCODINGS.map(|(_, suffix)| &recordings[&format!("{name}{suffix}")]);
        let (json, tnet) = (Envelope::parse(json).unwrap(), Envelope::parse(tnet).unwrap());
        assert_eq!((json.path, json.body), (tnet.path, tnet.body), "{name}");
        assert_eq!(json.looks_plain(), tnet.looks_plain(), "{name}");
        let (ours, theirs) = (json.headers().unwrap(), tnet.headers().unwrap());
        assert_eq!(classify(&json, &ours), classify(&tnet, &theirs), "{name}");
        assert_eq!(ours.len(), theirs.len(), "{name}");
        for (key, value) in ours.iter() {
            let other = theirs.get(key).unwrap();
            // Each recording had temporary files of its own.
            if !value.first().starts_with(b"./uploads/") {
                assert_eq!(value, other, "{name}: {}", key.escape_ascii());
            }
        }
    }
}

#[test]
fn requests_of_ordinary_clients_look_plain() {
    let recordings = recordings("");
    for (name, expected) in &expectations() {
        let envelope = Envelope::parse(&recordings[&format!("{name}.bin")]).unwrap();
        assert_eq!(envelope.looks_plain(), expected["kind"] == "http", "{name}");
    }
}

#[test]
fn requests_of_one_connection_share_their_id() {
    let id = |name: &str| expectations()[name]["id"].clone();
    assert_eq!(id("keepalive-1"), id("keepalive-2"));
    assert_eq!(id("pipelined-1"), id("pipelined-2"));
    assert_eq!(id("upload-start"), id("upload-done"));
    assert_eq!(id("websocket-handshake"), id("websocket-disconnect"));
}

#[test]
fn bodies_are_those_of_the_client() {
    let recordings_of_clients = recordings("client");
    let recordings = recordings("");
    for name in ["post-form", "post-multipart", "post-binary", "post-max-inline", "put-body"] {
        let client = &recordings_of_clients[&format!("{name}.bin")];
        let envelope = Envelope::parse(&recordings[&format!("{name}.bin")]).unwrap();
        let head = memchr::memmem::find(client, b"\r\n\r\n").unwrap();
        assert_eq!(envelope.body, &client[head + 4..], "{name}");
    }
}

#[test]
fn upload_headers_are_read_as_they_stand() {
    let recordings = recordings("");
    let paths = |name: &str| {
        let envelope = Envelope::parse(&recordings[name]).unwrap();
        let headers = envelope.headers().unwrap();
        let paths = upload_paths(&headers)?;
        Some((paths.start.to_vec(), paths.done.map(<[u8]>::to_vec)))
    };
    assert_eq!(paths("get-simple.bin"), None);
    assert_eq!(paths("upload-start.bin"), Some((b"./uploads/upload.P33dVX".to_vec(), None)));
    let spoofed = paths("upload-start-spoofed-done.bin").unwrap();
    assert_eq!(spoofed.0, b"./uploads/upload.reM6GX");
    assert_eq!(spoofed.1.as_deref(), Some(&b"/etc/passwd"[..]));
}
