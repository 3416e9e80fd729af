//! One setting after the other, read from the sources: the value that wins, where it came from, and what is wrong with
//! any of those that were given.

use std::collections::BTreeSet;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use super::Endpoint;
use super::LinkSpec;
use super::LogTarget;
use super::fault::Fault;
use super::fault::Problem;
use super::resolve::Shown;
use super::source;
use super::source::Given;
use super::source::Origin;
use super::source::Sources;
use super::source::Surroundings;
use super::table::Fallback;
use super::table::Key;
use super::table::Kind;
use super::table::Setting;
use super::value;

/// A link, and where its sides came from.
pub(super) type PlacedLink = (LinkSpec, (Origin, Origin));

/// Reads typed values from the sources, and collects what is wrong.
pub(super) struct Reader<'a, W> {
    pub(super) sources: &'a Sources,
    pub(super) world: &'a W,
    pub(super) faults: Vec<Fault>,
    pub(super) shown: Vec<Shown>,
    pub(super) warnings: Vec<String>,
}

impl<W: Surroundings> Reader<'_, W> {
    /// The value of a setting: of what was given, the last that is none of a lesser source; else its fallback.
    pub(super) fn get<T>(
        &mut self,
        key: Key,
        parse: impl Fn(&Self, &str) -> Result<T, Problem>,
        show: impl Fn(&T) -> String,
    ) -> Option<T> {
        let setting = Setting::of(key);
        let fallback = source::fallback(setting);
        let mut given = self.sources.all(key);
        given.extend(fallback.as_ref().filter(|_| given.is_empty()));
        if given.is_empty() && setting.fallback == Fallback::Required {
            self.faults.push(Fault::Missing(setting));
            return None;
        }
        let mut last = (None, Origin::Default);
        for given in given {
            last.1 = given.origin.clone();
            match utf8(given).and_then(|text| parse(self, text)) {
                Ok(value) => last.0 = Some(value),
                Err(problem) => self.fault(&given.origin, problem),
            }
        }
        let (value, origin) = last;
        self.shown.push(Shown { setting, literal: value.as_ref().map(show), origin });
        value
    }

    pub(super) fn text(
        &mut self,
        key: Key,
        parse: fn(&str) -> Result<String, Problem>,
    ) -> Option<String> {
        self.get(key, |_, text| parse(text), |text| quoted(text))
    }

    pub(super) fn count<T: TryFrom<u64>>(&mut self, key: Key) -> Option<T> {
        let Kind::Count { min, max } = Setting::of(key).kind else { return None };
        let number = self.get(key, |_, text| value::count(text, min, max), ToString::to_string)?;
        T::try_from(number).ok()
    }

    pub(super) fn word<T>(&mut self, key: Key, meaning: impl Fn(&str) -> T) -> Option<T> {
        let Kind::Choice(words) = Setting::of(key).kind else { return None };
        let word = self.get(
            key,
            |_, text| value::choice(text, words).map(str::to_owned),
            |word| quoted(word),
        )?;
        Some(meaning(&word))
    }

    pub(super) fn switch(&mut self, key: Key) -> Option<bool> {
        self.get(key, |_, text| value::switch(text), ToString::to_string)
    }

    pub(super) fn duration(&mut self, key: Key) -> Option<Duration> {
        self.get(
            key,
            |_, text| value::duration(text),
            |value| quoted(&value::show_duration(*value)),
        )
    }

    pub(super) fn size(&mut self, key: Key) -> Option<u64> {
        let Kind::Size { min, max } = Setting::of(key).kind else { return None };
        self.get(
            key,
            |_, text| value::size(text, min, max),
            |bytes| quoted(&value::show_size(*bytes)),
        )
    }

    /// All values of the strongest source; of the fallback if nothing was given. None with a fault.
    pub(super) fn list<T>(
        &mut self,
        key: Key,
        parse: impl Fn(&Self, &str) -> Result<T, Problem>,
    ) -> Option<Vec<T>> {
        let setting = Setting::of(key);
        let fallback = source::fallback(setting);
        let mut given = self.sources.all(key);
        given.extend(fallback.as_ref().filter(|_| given.is_empty()));
        let strongest = given.last().map_or(Origin::Default, |given| given.origin.clone());
        if given.is_empty() && setting.fallback == Fallback::Required {
            self.faults.push(Fault::Missing(setting));
            return None;
        }
        let (mut values, mut texts, mut good) = (Vec::new(), Vec::new(), true);
        for given in given {
            let split = matches!(given.origin, Origin::Environment(_));
            let parts: Vec<&str> = match utf8(given) {
                Ok(text) if split => text.split_whitespace().collect(),
                Ok(text) => vec![text],
                Err(problem) => {
                    self.fault(&given.origin, problem);
                    good = false;
                    continue;
                }
            };
            for text in parts {
                match parse(self, text) {
                    Ok(value) if given.origin.same_source(&strongest) => {
                        values.push(value);
                        texts.push(toml::Value::from(text));
                    }
                    Ok(_) => {}
                    Err(problem) => {
                        self.fault(&given.origin, problem);
                        good = false;
                    }
                }
            }
        }
        let literal = (!texts.is_empty()).then(|| toml::Value::Array(texts).to_string());
        self.shown.push(Shown { setting, literal, origin: strongest });
        good.then_some(values)
    }

    pub(super) fn path(&self, text: &str) -> Result<PathBuf, Problem> {
        path(self.world, text)
    }

    pub(super) fn directory(&self, text: &str) -> Result<PathBuf, Problem> {
        let path = self.path(text)?;
        if self.world.is_dir(&path) {
            Ok(path)
        } else {
            Err(Problem::NoDirectory(path.display().to_string()))
        }
    }

    pub(super) fn log_target(&self, text: &str) -> Result<LogTarget, Problem> {
        if text == "-" { Ok(LogTarget::Stdout) } else { self.path(text).map(LogTarget::File) }
    }

    /// The links of the strongest source that has either side of one.
    pub(super) fn links(&mut self) -> Vec<PlacedLink> {
        let recv = self.endpoints(Key::Recv);
        let send = self.endpoints(Key::Send);
        // A half link in the file has been reported by its number.
        let told = self.faults.iter().any(|fault| matches!(fault, Fault::HalfLink { .. }));
        for (key, side) in [(Key::Recv, &recv), (Key::Send, &send)] {
            if side.is_empty() && !told {
                self.faults.push(Fault::Missing(Setting::of(key)));
            }
        }
        let (Some((_, last_recv)), Some((_, last_send))) = (recv.last(), send.last()) else {
            return Vec::new();
        };
        let strongest = if last_send.is_stronger(last_recv) { last_send } else { last_recv };
        let of_strongest = |side: &[PlacedEndpoint]| -> Vec<PlacedEndpoint> {
            side.iter().filter(|(_, origin)| origin.same_source(strongest)).cloned().collect()
        };
        let (recv, send) = (of_strongest(&recv), of_strongest(&send));
        if recv.len() != send.len() && !told {
            let at = |key| strongest.renamed(Setting::of(key));
            self.faults.push(Fault::Unpaired {
                recv_at: at(Key::Recv),
                recv: recv.len(),
                send_at: at(Key::Send),
                send: send.len(),
            });
        }
        let mut seen = BTreeSet::new();
        for (endpoint, origin) in recv.iter().chain(&send) {
            if let Some(endpoint) =
                endpoint.as_ref().filter(|endpoint| !seen.insert(endpoint.as_str()))
            {
                self.fault(origin, Problem::Twice(endpoint.to_string()));
            }
        }
        let pairs = recv.iter().zip(&send).filter_map(|((recv, recv_at), (send, send_at))| {
            let link = LinkSpec { recv: recv.clone()?, send: send.clone()? };
            Some((link, (recv_at.clone(), send_at.clone())))
        });
        pairs.collect()
    }

    /// All endpoints that were given, those that win last; none for a text that is no endpoint, so that counts stay right.
    fn endpoints(&mut self, key: Key) -> Vec<PlacedEndpoint> {
        let mut endpoints = Vec::new();
        for given in self.sources.all(key) {
            let listed = matches!(given.origin, Origin::Environment(_));
            let texts: Vec<&str> = match utf8(given) {
                Ok(text) if listed => text.split(',').map(str::trim).collect(),
                Ok(text) => vec![text],
                Err(problem) => {
                    self.fault(&given.origin, problem);
                    endpoints.push((None, given.origin.clone()));
                    continue;
                }
            };
            for text in texts {
                let endpoint = match text.parse::<Endpoint>() {
                    _ if text.is_empty() => Err(Problem::Empty),
                    Ok(endpoint) => Ok(endpoint),
                    Err(error) => Err(Problem::Endpoint { text: text.to_owned(), error }),
                };
                let endpoint = endpoint.map_err(|problem| self.fault(&given.origin, problem)).ok();
                endpoints.push((endpoint, given.origin.clone()));
            }
        }
        endpoints
    }

    fn fault(&mut self, origin: &Origin, problem: Problem) {
        self.faults.push(Fault::Value { origin: origin.clone(), problem });
    }

    /// A value makes no sense without another setting, which was not given.
    pub(super) fn needs(&mut self, key: Key, word: &'static str, needed: Key) {
        let (setting, needed) = (Setting::of(key), Setting::of(needed));
        self.faults.push(Fault::Needs { setting, word, needed });
    }

    /// A fault of a value that is only wrong beside others.
    pub(super) fn fault_at(&mut self, key: Key, problem: Problem) {
        let shown = self.shown.iter().find(|shown| shown.setting.key == key);
        let origin = shown.map_or(Origin::Default, |shown| shown.origin.clone());
        self.fault(&origin, problem);
    }

    pub(super) fn warn(&mut self, warning: String) {
        self.warnings.push(warning);
    }
}

type PlacedEndpoint = (Option<Endpoint>, Origin);

pub(super) fn utf8(given: &Given) -> Result<&str, Problem> {
    given.text.to_str().ok_or(Problem::NotText)
}

/// An absolute path: `~` is HOME, a relative one starts at the current directory. Links are not followed.
pub(super) fn path(world: &impl Surroundings, text: &str) -> Result<PathBuf, Problem> {
    let text = value::text(text)?;
    let expanded = match text.strip_prefix('~') {
        None => PathBuf::from(&text),
        Some(rest) if rest.is_empty() || rest.starts_with('/') => {
            let home = world.variable("HOME").filter(|home| !home.is_empty());
            let home = home.and_then(|home| home.into_string().ok());
            let home = home.ok_or_else(|| Problem::NoHome(text.clone()))?;
            Path::new(&home).join(rest.trim_start_matches('/'))
        }
        Some(_) => return Err(Problem::OtherHome(text)),
    };
    let absolute = if expanded.is_absolute() {
        expanded
    } else {
        world.current_dir().map_err(|_| Problem::NoCurrent(text))?.join(expanded)
    };
    let plain: PathBuf = absolute.components().collect();
    if plain.to_str().is_some() { Ok(plain) } else { Err(Problem::NotText) }
}

/// A text as TOML has it.
pub(super) fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

#[allow(clippy::ptr_arg, reason = "it is handed on as the way to show a PathBuf")]
pub(super) fn quoted_path(path: &PathBuf) -> String {
    quoted(&path.to_string_lossy())
}
