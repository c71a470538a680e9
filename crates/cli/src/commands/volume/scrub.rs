//! `thorp volume scrub`: a home, and a cache, compared by the checksums of their blocks.

use super::live::Attachment;
use super::store::Store;
use super::stored;
use crate::Result;
use crate::cli::VolumeScrubArgs;
use crate::output::{Output, bar, spinner, visible};
use crate::stopper::Interrupt;
use ::registry::Volume;
use attach::control;
use attach::{BLOCK, BlockSums, ComparedCopies, CopyDifference, Difference, NotCompared, Repair, Scrub};
use serde_json::{Value, json};
use std::path::Path;

pub(super) fn scrub(args: &VolumeScrubArgs, output: &mut Output) -> Result {
    let interrupt = Interrupt::watch()?;
    if let Some(store) = &args.place.store {
        return scrub_stored(args, &Store::connect(store, &interrupt)?, output);
    }
    let scrub = with_cache(Scrub::of_home(&args.volume, args.place.beside.as_deref())?, args)?;
    run(args, &scrub, &interrupt, &|blocks| Ok(scrub.repair(blocks)?), output)
}

fn scrub_stored(args: &VolumeScrubArgs, store: &Store, output: &mut Output) -> Result {
    let found = store.find(stored::name(&args.volume)?)?;
    let scrub = || Ok::<_, crate::Error>(Scrub::of_store(store.home(found.id)?));
    let attachment = Attachment::of_store(&found, None).filter(|_| args.place.cache.is_none());
    let scrub = match attachment.as_ref().and_then(Attachment::here) {
        // That of the registry may be gone.
        Some(cache) => match scrub()?.with_cache(cache) {
            Ok(scrub) => scrub,
            Err(why) => {
                eprintln!("the cache at {} is not compared: {why}", cache.display());
                scrub()?
            }
        },
        None => with_cache(scrub()?, args)?,
    };
    let repair = |blocks: &[u32]| match (scrub.attached(), &attachment) {
        (Some((cache, identity)), _) => repair_attached(cache, identity, blocks, store.interrupt()),
        (None, Some(_)) => {
            let place = visible(&found.place);
            Err(format!("'{}' is attached at {place}: run `thorp volume scrub --repair` there", found.name).into())
        }
        (None, None) => repair_detached(&scrub, &found, blocks, store),
    };
    run(args, &scrub, store.interrupt(), &repair, output)
}

/// Has the process that has the volume attached repair blocks.
fn repair_attached(cache: &Path, identity: &str, blocks: &[u32], interrupt: &Interrupt) -> Result<Vec<Repair>> {
    let mut repairs = Vec::new();
    for blocks in blocks.chunks(control::REPAIRED_MAX) {
        repairs.extend(control::repair(cache, identity, blocks, &|| interrupt.has_come())?);
    }
    Ok(repairs)
}

/// Repairs blocks of a volume that is not attached, by attaching it for a moment.
fn repair_detached(scrub: &Scrub, found: &Volume, blocks: &[u32], store: &Store) -> Result<Vec<Repair>> {
    let mut repairs = Vec::new();
    stored::attach_briefly(found, store, |attached, is_told| {
        repairs = scrub.repair_through(attached, blocks, is_told)?;
        Ok(())
    })?;
    Ok(repairs)
}

fn with_cache(scrub: Scrub, args: &VolumeScrubArgs) -> Result<Scrub> {
    match &args.place.cache {
        Some(cache) => Ok(scrub.with_cache(cache)?),
        None => Ok(scrub),
    }
}

fn run(
    args: &VolumeScrubArgs,
    scrub: &Scrub,
    interrupt: &Interrupt,
    repair: &dyn Fn(&[u32]) -> Result<Vec<Repair>>,
    output: &mut Output,
) -> Result {
    let progress = bar("bytes are compared", scrub.size());
    let (mut at, mut blocks, mut left) = (0, Vec::new(), Vec::new());
    let mut printed = Ok(());
    let compared = scrub.run(&mut |bytes, differences| {
        at = bytes;
        progress.set_position(bytes);
        for it in differences.iter().filter(|_| args.repair) {
            match it.left() {
                Some(it) => left.push(it),
                None => blocks.push(it.block),
            }
        }
        printed = progress.suspend(|| differences.iter().try_for_each(|it| tell(it, output)));
        printed.is_ok() && !interrupt.has_come()
    });
    progress.finish_and_clear();
    let compared = compared?;
    printed?;
    // The log first: repairs of blocks at home are written back behind its writes.
    let copies = compare_copies(scrub, args.repair, interrupt, output)?;
    let mut repairs = copies.repairs;
    repairs.extend(left);
    repairs.extend(if blocks.is_empty() { Vec::new() } else { repair(&blocks)? });
    repairs.iter().try_for_each(|it| output.line(&json!(it), visible(&it.text())))?;
    let differing = compared.differences + copies.differing;
    let repaired = repairs.iter().filter(|it| it.is_done()).count();
    let is_repaired = args.repair && repaired == repairs.len();
    let volume = args.volume.display();
    let is_whole = at == scrub.size();
    let fields = json!({
        "volume": args.volume, "size": scrub.size(), "compared_bytes": at, "checked_blocks": compared.checked,
        "unknown_blocks": compared.unknown, "cached_blocks": compared.cached, "copied_blocks": copies.blocks,
        "differences": differing, "repaired": repaired,
    });
    let text = format!(
        "{volume}: {} blocks compared with home's checksums, {} with a cache's, {} with holders' copies; of {} home knows none; \
         {differing} differ{}",
        compared.checked,
        compared.cached,
        copies.blocks,
        compared.unknown,
        if args.repair { format!(", {repaired} repaired") } else { String::new() }
    );
    output.line(&fields, text)?;
    output.flush()?;
    match differing {
        0 if is_whole && interrupt.has_come() => Err("interrupted: not all copies at holders were compared".into()),
        0 if is_whole => Ok(()),
        _ if is_repaired && is_whole => Ok(()),
        0 => Err(format!("interrupted: {at} of {} bytes were compared", scrub.size()).into()),
        1 => Err("a block is not the same everywhere".into()),
        differences => Err(format!("{differences} blocks are not the same everywhere").into()),
    }
}

/// Has what is not written back compared with the copies at holders, if the volume is attached here, and tells the
/// differences.
fn compare_copies(scrub: &Scrub, repairs: bool, interrupt: &Interrupt, output: &mut Output) -> Result<ComparedCopies> {
    if interrupt.has_come() {
        return Ok(ComparedCopies::default());
    }
    let spinner = spinner("what is not home is compared with holders' copies");
    let compared = scrub.copies(repairs, &|| interrupt.has_come());
    spinner.finish_and_clear();
    let compared = compared.unwrap_or_else(|why| {
        eprintln!("holders' copies are not compared: {why}");
        ComparedCopies::default()
    });
    for NotCompared { holder, why } in &compared.without {
        eprintln!("the copies at holder {holder} are not compared, or not all: {why}");
    }
    compared.differences.iter().try_for_each(|it| tell_copy(it, output))?;
    Ok(compared)
}

fn tell_copy(difference: &CopyDifference, output: &mut Output) -> Result {
    let CopyDifference { block, blocks, holder, meaning } = difference;
    let fields = json!({
        "block": block, "blocks": blocks, "offset": block * BLOCK as u64, "holder": holder, "meaning": meaning,
    });
    let which =
        if *blocks == 1 { format!("block {block}") } else { format!("blocks {block} to {}", block + blocks - 1) };
    output.line(&fields, format!("{which}, not home, at holder {holder}: {}", meaning.text()))
}

fn tell(difference: &Difference, output: &mut Output) -> Result {
    let Difference { block, home, cache } = difference;
    let (meaning, offset) = (difference.meaning(), u64::from(*block) * BLOCK as u64);
    let fields = json!({
        "block": block, "offset": offset, "home": sums(*home), "cache": cache.map(sums), "meaning": meaning.name(),
    });
    let known = |kept: u32| if kept == 0 { "unknown".to_owned() } else { format!("{kept:08x}") };
    let shown = |who: &str, sums: BlockSums| format!("{who} has {:08x}, and was {}", sums.read, known(sums.kept));
    let cached = cache.map(|cache| format!("; {}", shown("the cache", cache))).unwrap_or_default();
    let text = format!("block {block}: {}{cached}: {}", shown("home", *home), meaning.text());
    output.line(&fields, text)
}

fn sums(BlockSums { kept, read }: BlockSums) -> Value {
    let kept = (kept != 0).then(|| format!("{kept:08x}"));
    json!({"kept": kept, "read": format!("{read:08x}")})
}
