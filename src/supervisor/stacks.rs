//! What the slots do, as `lurcher stacks` prints it.

use std::fmt::Write as _;

use serde::Deserialize;

use crate::dispatch::WorkerStacks;

/// A busy slot, as its worker tells it.
#[derive(Debug, Deserialize)]
struct Busy {
    thread: String,
    ticket: u64,
    request: String,
    age_ms: u64,
    stack: Vec<String>,
}

/// The answers of all workers as one text.
pub(super) fn text(workers: &[WorkerStacks]) -> String {
    let mut out = String::new();
    for worker in workers {
        // Writing to a String cannot fail.
        let _ = match &worker.json {
            None => writeln!(
                out,
                "{}: no answer within two seconds: stopped, or something holds its interpreter (the GIL)",
                worker.id
            ),
            Some(json) => match serde_json::from_slice::<Vec<Busy>>(json) {
                Ok(busy) if busy.is_empty() => writeln!(out, "{}: idle", worker.id),
                Ok(busy) => writeln!(out, "{}:", worker.id)
                    .and_then(|()| busy.iter().try_for_each(|slot| put(&mut out, slot))),
                Err(why) => writeln!(out, "{}: its answer cannot be read: {why}", worker.id),
            },
        };
    }
    if out.is_empty() {
        out.push_str("no worker is ready\n");
    }
    out
}

fn put(out: &mut String, slot: &Busy) -> std::fmt::Result {
    let Busy { thread, ticket, request, age_ms, stack } = slot;
    let (seconds, tenths) = (age_ms / 1000, age_ms % 1000 / 100);
    writeln!(out, "  {thread}, at work for {seconds}.{tenths} s: {request} (ticket #{ticket})")?;
    for line in stack.iter().flat_map(|part| part.lines()) {
        writeln!(out, "    {line}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::WorkerId;

    #[test]
    fn each_worker_has_its_part() {
        let busy =
            br#"[{"slot":2,"thread":"lurcher-slot-3","ticket":7,"request":"GET /","age_ms":61250,
            "stack":["  File \"a.py\", line 1, in f\n    wait()\n"]}]"#;
        let answer = |id, json: Option<&[u8]>| WorkerStacks {
            id: WorkerId(id),
            json: json.map(<[u8]>::to_vec),
        };
        assert_eq!(
            text(&[answer(1, Some(busy)), answer(2, Some(b"[]")), answer(3, None)]),
            "worker 1:\n  lurcher-slot-3, at work for 61.2 s: GET / (ticket #7)\n      File \"a.py\", line 1, in f\n        \
             wait()\nworker 2: idle\nworker 3: no answer within two seconds: stopped, or something holds its interpreter \
             (the GIL)\n"
        );
        assert!(text(&[answer(1, Some(b"{"))]).starts_with("worker 1: its answer cannot be read"));
        assert_eq!(text(&[]), "no worker is ready\n");
    }
}
