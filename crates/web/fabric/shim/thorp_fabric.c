/*
 * Reads of another machine's memory by libfabric, in as few calls as Thorp needs.
 *
 *   home:   share ---- a domain, an endpoint, and memory that others may read
 *   cache:  open, read*, close ---- an endpoint, and reads of eight bytes each that are under way together
 *
 * libfabric's functions are inline, over tables in its headers, so they are called from C, and Thorp loads what this file
 * is compiled to where it is wanted: neither is needed to build Thorp or to run it without. `crates/web/fabric/src/shim.rs`
 * has the same calls in Rust.
 *
 *   cc -O2 -shared -fPIC -o libthorp_fabric.so crates/web/fabric/shim/thorp_fabric.c -lfabric
 *
 * Every call gives 0, or says why not in `why`.
 */
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

/* Changes with every change of a call. */
#define CALLS 1

/* Reads that are under way at a time. */
#define READS_MAX 1025

/* One that is waited for is asked about so often without sleeping: it takes a few microseconds. */
#define SPINS 2000

struct endpoint {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
};

struct thorp_shared {
	struct endpoint end;
	struct fid_mr *mr;
};

struct thorp_reader {
	struct endpoint end;
	fi_addr_t home;
	uint64_t base, key;
	/* Where the words land, and its registration, if the provider wants one. */
	uint64_t *words;
	struct fid_mr *mr;
};

static int failed(int error, const char *what, char *why, size_t why_bytes)
{
	snprintf(why, why_bytes, "%s: %s", what, fi_strerror(error < 0 ? -error : error));
	return error < 0 ? error : -error;
}

static void end_close(struct endpoint *end)
{
	/* Reads under way end with the endpoint: nothing lands after that. */
	if (end->ep)
		fi_close(&end->ep->fid);
	if (end->cq)
		fi_close(&end->cq->fid);
	if (end->av)
		fi_close(&end->av->fid);
	if (end->domain)
		fi_close(&end->domain->fid);
	if (end->fabric)
		fi_close(&end->fabric->fid);
	if (end->info)
		fi_freeinfo(end->info);
	memset(end, 0, sizeof *end);
}

/* Opens an endpoint of a provider. `node` is the address of a home, and none to read. */
static int end_open(struct endpoint *end, const char *provider, const char *node, char *why, size_t why_bytes)
{
	struct fi_info *hints = fi_allocinfo();
	struct fi_cq_attr cq = { .size = READS_MAX, .format = FI_CQ_FORMAT_CONTEXT, .wait_obj = FI_WAIT_NONE };
	struct fi_av_attr av = { .type = FI_AV_UNSPEC };
	const char *what;
	int error;

	memset(end, 0, sizeof *end);
	if (!hints)
		return failed(FI_ENOMEM, "hints", why, why_bytes);
	/* Where atomics are asked for, rxm has a thread that answers reads; elsewhere the device does. Both ends ask alike. */
	hints->caps = FI_RMA | FI_ATOMIC | (node ? FI_REMOTE_READ : FI_READ);
	hints->ep_attr->type = FI_EP_RDM;
	/* Without the home's processor: its provider goes on by itself. */
	hints->domain_attr->data_progress = FI_PROGRESS_AUTO;
	hints->domain_attr->control_progress = FI_PROGRESS_AUTO;
	hints->domain_attr->threading = FI_THREAD_SAFE;
	hints->domain_attr->mr_mode =
		FI_MR_LOCAL | FI_MR_ENDPOINT | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
	hints->fabric_attr->prov_name = strdup(provider);
	error = fi_getinfo(FI_VERSION(1, 17), node, NULL, node ? FI_SOURCE : 0, hints, &end->info);
	fi_freeinfo(hints);
	what = "no such provider, or not with reads from afar and progress of its own";
	if (error)
		goto out;
	what = "fabric";
	if ((error = fi_fabric(end->info->fabric_attr, &end->fabric, NULL)))
		goto out;
	what = "domain";
	if ((error = fi_domain(end->fabric, end->info, &end->domain, NULL)))
		goto out;
	what = "addresses";
	if ((error = fi_av_open(end->domain, &av, &end->av, NULL)))
		goto out;
	what = "completions";
	if ((error = fi_cq_open(end->domain, &cq, &end->cq, NULL)))
		goto out;
	what = "endpoint";
	if ((error = fi_endpoint(end->domain, end->info, &end->ep, NULL)))
		goto out;
	what = "endpoint's parts";
	if ((error = fi_ep_bind(end->ep, &end->av->fid, 0)))
		goto out;
	if ((error = fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV)))
		goto out;
	if ((error = fi_enable(end->ep)))
		goto out;
	return 0;
out:
	end_close(end);
	return failed(error, what, why, why_bytes);
}

/* Registers memory, as the provider wants it. */
static int end_register(struct endpoint *end, void *memory, size_t bytes, uint64_t access, struct fid_mr **mr)
{
	int error = fi_mr_reg(end->domain, memory, bytes, access, 0, 0, 0, mr, NULL);

	if (error || !(end->info->domain_attr->mr_mode & FI_MR_ENDPOINT))
		return error;
	if (!(error = fi_mr_bind(*mr, &end->ep->fid, 0)))
		error = fi_mr_enable(*mr);
	if (error) {
		fi_close(&(*mr)->fid);
		*mr = NULL;
	}
	return error;
}

EXPORT uint32_t thorp_fabric_calls(void)
{
	return CALLS;
}

EXPORT void thorp_fabric_unshare(struct thorp_shared *shared)
{
	if (shared->mr)
		fi_close(&shared->mr->fid);
	end_close(&shared->end);
	free(shared);
}

/*
 * Lets others read `memory`, which stays where it is until thorp_fabric_unshare(). What they need for it: the endpoint's
 * `name` (of `*name_bytes`, which begins as the room for it), `*base` and `*key`.
 */
EXPORT int thorp_fabric_share(const char *provider, const char *node, void *memory, size_t bytes,
			      struct thorp_shared **out, uint8_t *name, size_t *name_bytes, uint64_t *base,
			      uint64_t *key, char *why, size_t why_bytes)
{
	struct thorp_shared *shared = calloc(1, sizeof *shared);
	int error;

	if (!shared)
		return failed(FI_ENOMEM, "memory", why, why_bytes);
	error = end_open(&shared->end, provider, node, why, why_bytes);
	if (error) {
		free(shared);
		return error;
	}
	error = end_register(&shared->end, memory, bytes, FI_REMOTE_READ, &shared->mr);
	if (error) {
		failed(error, "the table cannot be registered", why, why_bytes);
		goto out;
	}
	*key = fi_mr_key(shared->mr);
	if (*key == FI_KEY_NOTAVAIL) {
		error = failed(FI_ENOSYS, "the provider's keys have more than eight bytes", why, why_bytes);
		goto out;
	}
	*base = shared->end.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)memory : 0;
	error = fi_getname(&shared->end.ep->fid, name, name_bytes);
	if (error) {
		failed(error, "the endpoint has no name", why, why_bytes);
		goto out;
	}
	*out = shared;
	return 0;
out:
	thorp_fabric_unshare(shared);
	return error;
}

EXPORT void thorp_fabric_close(struct thorp_reader *reader)
{
	struct fid_mr *mr = reader->mr;
	struct endpoint *end = &reader->end;

	/* The endpoint goes first, so that nothing lands in memory that is not there any more. */
	if (end->ep)
		fi_close(&end->ep->fid);
	end->ep = NULL;
	if (mr)
		fi_close(&mr->fid);
	end_close(end);
	free(reader->words);
	free(reader);
}

/* Opens memory that a home shares. */
EXPORT int thorp_fabric_open(const char *provider, const uint8_t *name, uint64_t base, uint64_t key,
			     struct thorp_reader **out, char *why, size_t why_bytes)
{
	struct thorp_reader *reader = calloc(1, sizeof *reader);
	int error;

	if (!reader)
		return failed(FI_ENOMEM, "memory", why, why_bytes);
	error = end_open(&reader->end, provider, NULL, why, why_bytes);
	if (error) {
		free(reader);
		return error;
	}
	reader->base = base;
	reader->key = key;
	reader->words = calloc(READS_MAX, sizeof *reader->words);
	if (!reader->words) {
		error = failed(FI_ENOMEM, "memory", why, why_bytes);
		goto out;
	}
	if (reader->end.info->domain_attr->mr_mode & FI_MR_LOCAL) {
		error = end_register(&reader->end, reader->words, READS_MAX * sizeof *reader->words, FI_READ, &reader->mr);
		if (error) {
			failed(error, "memory cannot be registered", why, why_bytes);
			goto out;
		}
	}
	if (fi_av_insert(reader->end.av, name, 1, &reader->home, 0, NULL) != 1) {
		error = failed(FI_EADDRNOTAVAIL, "the home's endpoint has no name of this provider", why, why_bytes);
		goto out;
	}
	*out = reader;
	return 0;
out:
	thorp_fabric_close(reader);
	return error;
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Takes completions, and counts those; spins for a while, and then lets others run. */
static int complete(struct thorp_reader *reader, size_t *done, unsigned *spins, uint64_t until, char *why, size_t why_bytes)
{
	struct fi_cq_entry entries[64];
	struct fi_cq_err_entry wrong = { 0 };
	ssize_t got = fi_cq_read(reader->end.cq, entries, 64);

	if (got > 0) {
		*done += got;
		*spins = 0;
		return 0;
	}
	if (got == -FI_EAVAIL) {
		fi_cq_readerr(reader->end.cq, &wrong, 0);
		return failed(wrong.err ? wrong.err : FI_EIO, "a read has failed", why, why_bytes);
	}
	if (got != -FI_EAGAIN)
		return failed((int)got, "completions", why, why_bytes);
	if (++*spins > SPINS) {
		struct timespec pause = { .tv_nsec = 20000 };

		if (now_ms() >= until)
			return failed(FI_ETIMEDOUT, "the home's memory does not answer", why, why_bytes);
		nanosleep(&pause, NULL);
	}
	return 0;
}

/*
 * Reads so many words, each at its place in the shared memory, of which there are at most 1025. Each is read after this
 * was called. After an error the reader is of no use but to be closed: reads of it may still be under way.
 */
EXPORT int thorp_fabric_read(struct thorp_reader *reader, const uint64_t *at, size_t count, uint64_t *words,
			     uint32_t within_ms, char *why, size_t why_bytes)
{
	void *desc = reader->mr ? fi_mr_desc(reader->mr) : NULL;
	uint64_t until = now_ms() + within_ms;
	size_t asked = 0, done = 0;
	unsigned spins = 0;

	if (count > READS_MAX)
		return failed(FI_E2BIG, "reads at a time", why, why_bytes);
	while (done < count) {
		int error;

		while (asked < count) {
			ssize_t sent = fi_read(reader->end.ep, &reader->words[asked], sizeof *words, desc, reader->home,
					       reader->base + at[asked] * sizeof *words, reader->key, NULL);
			if (sent == -FI_EAGAIN)
				break;
			if (sent)
				return failed((int)sent, "a read", why, why_bytes);
			asked++;
		}
		error = complete(reader, &done, &spins, until, why, why_bytes);
		if (error)
			return error;
	}
	memcpy(words, reader->words, count * sizeof *words);
	return 0;
}
