<?php
declare(strict_types=1);

/*
 * A shop with one kind of page: GET /item.php?id=42 shows an item, POST with `name` changes it. Items are files here, to have
 * an example without a database.
 */

require __DIR__ . '/thorp.php';

$id = (int) ($_GET['id'] ?? 0);
$item = getenv('SHOP_ITEMS') . "/$id";

if ($_SERVER['REQUEST_METHOD'] === 'POST') {
    if (!thorp_write($item, (string) ($_POST['name'] ?? ''))) {
        // The item is as it was: no change to tell of.
        http_response_code(500);
        exit;
    }
    // Before the writer has its answer.
    thorp_changed(["item:$id"]);
    http_response_code(204);
    exit;
}

/** @return array{string, list<string>} the page, and what it depends on */
$make = function () use ($id, $item): array {
    $name = @file_get_contents($item);
    // A page that shows that there is nothing depends on that, too.
    $page = $name === false ? 'no such item' : 'item ' . $id . ': ' . htmlspecialchars($name);
    return ["<!doctype html><p>$page</p>\n", ["item:$id"]];
};

header('Content-Type: text/html; charset=utf-8');
if (isset($_SERVER['HTTP_THORP_TICKET'])) {
    // An nginx asks, and keeps the page, for everybody. It has the lifetime: one that is said here could reach browsers, which
    // ask nobody.
    [$page, $dependencies] = $make();
    header('Cache-Control: public');
    thorp_announce($dependencies);
} else {
    // Clients are to ask each time; we keep it.
    header('Cache-Control: no-cache');
    // All that tells pages apart, and nothing else that clients can choose.
    $page = thorp_page("item:$id", getenv('SHOP_PAGES'), $make);
}
echo $page;
