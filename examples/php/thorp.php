<?php
declare(strict_types=1);

/*
 * Pages that are kept and never stale: `thorp verify` says at each request whether what is kept may be used, and of each new
 * page whether it may be kept. docs/verify.md explains it.
 *
 * thorp_page() keeps pages as files, for Apache and any other server with PHP. Behind an nginx that keeps them
 * (examples/nginx/thorp.conf) thorp_announce() says of a page what it depends on. thorp_changed() tells of what has changed.
 */

/** A page has one of 256 folders, and a folder has so many pages: beyond, those that were made first are removed. */
const THORP_PAGES_PER_FOLDER = 64;

/** How long the helper may take to answer: requests wait for it. */
const THORP_LOOK_S = 1;
const THORP_STORE_S = 2;

/** A change is answered when all caches have heard of it: those that are dead are waited for until their lease is over. */
const THORP_CHANGE_S = 40;

/** Where `thorp verify` is: unix:///run/thorp/verify, or tcp://127.0.0.1:7414 where it listens there, too. */
function thorp_address(): string
{
    return getenv('THORP_VERIFY') ?: 'unix:///run/thorp/verify';
}

/**
 * The page under a key, from its file in a folder if that may be used; else it is made, and kept if it may be.
 *
 * @param string $key tells pages apart by the parameters that they are made of. A part that clients choose freely, such as the
 *     query as it came, has one page kept many times.
 * @param callable(): array{string, list<string>} $make gives the page, and the names of all that it depends on. It has to read
 *     what it shows when it is called, and not before.
 */
function thorp_page(string $key, string $folder, callable $make): string
{
    $look = thorp_look($key);
    $name = hash('sha256', $key);
    $folder .= '/' . substr($name, 0, 2);
    $file = "$folder/$name." . $look['version'];
    if ($look['state'] === 'current' && ($page = @file_get_contents($file)) !== false) {
        header('X-Cache-Status: HIT');
        return $page;
    }
    [$page, $dependencies] = $make();
    header('X-Cache-Status: MISS');
    // Only under the version that it was stored under.
    if (thorp_store($look['ticket'], $dependencies) === $look['version'] && $look['version'] !== '') {
        // Another request may have made the folder meanwhile.
        @mkdir($folder);
        if (thorp_write($file, $page)) {
            thorp_remove_others($folder, $file);
        }
    }
    return $page;
}

/** Says what a page depends on, to an nginx that has asked for it with a ticket; before the page's first byte. */
function thorp_announce(array $dependencies): void
{
    $version = thorp_store($_SERVER['HTTP_THORP_TICKET'] ?? '', $dependencies);
    if ($version !== '') {
        header('Thorp-Stored: ' . $version);
    }
}

/**
 * Tells of what has changed, when it has: nobody is answered with what was before when this returns.
 *
 * @throws RuntimeException if that is not known
 */
function thorp_changed(array $dependencies): void
{
    [$status, , $said] = thorp_ask('POST /invalidate', THORP_CHANGE_S, [], ['dependencies' => $dependencies]);
    if ($status !== 200) {
        throw new RuntimeException('caches may not have heard of the change: ' . ($said['error'] ?? 'thorp verify is away'));
    }
}

/** @return array{state: string, version: string, ticket: string} what may be used for a request that has come before this */
function thorp_look(string $key): array
{
    [, $fields] = thorp_ask('GET /look', THORP_LOOK_S, ['Thorp-Key: ' . $key]);
    return [
        'state' => $fields['thorp-state'] ?? 'away',
        'version' => $fields['thorp-version'] ?? '',
        'ticket' => $fields['thorp-ticket'] ?? '',
    ];
}

/** The version under which the page may be kept that was asked for with a ticket; empty if it must not be. */
function thorp_store(string $ticket, array $dependencies): string
{
    if ($ticket === '') {
        return '';
    }
    [, , $said] = thorp_ask('POST /store', THORP_STORE_S, [], ['ticket' => $ticket, 'dependencies' => $dependencies]);
    return $said['version'] ?? '';
}

/** @return array{int, array<string, string>, array<string, mixed>} status, fields and what is said; status 0 is no answer */
function thorp_ask(string $request, int $within, array $fields, ?array $body = null): array
{
    $helper = @stream_socket_client(thorp_address(), $number, $text, 1.0);
    if ($helper === false) {
        return [0, [], []];
    }
    stream_set_timeout($helper, $within);
    $content = $body === null ? '' : json_encode($body, JSON_THROW_ON_ERROR);
    $head = [...$fields, 'Host: localhost', 'Connection: close', 'Content-Length: ' . strlen($content)];
    fwrite($helper, "$request HTTP/1.1\r\n" . implode("\r\n", $head) . "\r\n\r\n" . $content);
    $answer = stream_get_contents($helper);
    fclose($helper);
    [$head, $content] = explode("\r\n\r\n", (string) $answer, 2) + ['', ''];
    $lines = explode("\r\n", $head);
    $said = [];
    foreach (array_slice($lines, 1) as $line) {
        [$name, $value] = explode(':', $line, 2) + ['', ''];
        $said[strtolower($name)] = trim($value);
    }
    return [(int) (explode(' ', $lines[0])[1] ?? 0), $said, json_decode($content, true) ?? []];
}

/** Writes a whole file, or leaves it as it was, as where the disk is full; gives whether it is written. */
function thorp_write(string $file, string $content): bool
{
    $new = @tempnam(dirname($file), 'new.');
    if ($new === false) {
        return false;
    }
    if (@file_put_contents($new, $content) !== strlen($content) || !@rename($new, $file)) {
        @unlink($new);
        return false;
    }
    return true;
}

/** Removes the files of a page's other versions, which are not asked for any more, and those beyond what a folder has. */
function thorp_remove_others(string $folder, string $file): void
{
    $page = substr($file, 0, strrpos($file, '.') + 1);
    $made = [];
    foreach (glob("$folder/*") ?: [] as $other) {
        if ($other === $file) {
            continue;
        }
        if (str_starts_with($other, $page)) {
            @unlink($other);
        } else {
            // Another request may have removed it meanwhile.
            $made[$other] = (int) @filemtime($other);
        }
    }
    asort($made);
    foreach (array_keys(array_slice($made, 0, max(0, count($made) + 1 - THORP_PAGES_PER_FOLDER))) as $first) {
        @unlink($first);
    }
}
