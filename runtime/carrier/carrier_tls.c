/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cryptographic half of TLS lanes. Guarantees: OpenSSL reads and writes memory only, never a descriptor;
 * a lane is open only after the verifier of tls_identity.c trusted the key that the peer has proved; what
 * OpenSSL says about a failure is turned into words and codes of ours here, and its error queue is left empty.
 */
#include "carrier/carrier_tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"
#include "carrier/carrier_tls_int.h"

#define CARRIER_MAGIC SN_MAGIC('C', 'T', 'L', 'S')

/* --- The memory that OpenSSL takes for a connection ------------------------------------------------------ */

static int bio_write(BIO *bio, const char *bytes, int size)
{
    struct sni_tls_lane *lane = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (size <= 0) return 0;
    if ((uint32_t)size > sni_ring_room(&lane->out)) {
        BIO_set_retry_write(bio);
        return -1;
    }
    sni_ring_put(&lane->out, bytes, (uint32_t)size);
    return size;
}

static int bio_read(BIO *bio, char *out, int size)
{
    struct sni_tls_lane *lane = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (size <= 0) return 0;
    uint32_t got = sni_span_take(&lane->in, out, (uint32_t)size);
    if (got > 0) return (int)got;
    BIO_set_retry_read(bio);
    return -1;
}

static long bio_control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH; /* nothing else is supported, nor asked for in vain */
}

static BIO_METHOD *make_bio_method(void)
{
    BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "sennit lane");
    if (method == NULL) return NULL;
    if (BIO_meth_set_write(method, bio_write) != 1 || BIO_meth_set_read(method, bio_read) != 1 ||
        BIO_meth_set_ctrl(method, bio_control) != 1) {
        BIO_meth_free(method);
        return NULL;
    }
    return method;
}

static int64_t wall_s(void *arg)
{
    return sn_env_wall_ms(arg) / 1000;
}

enum sn_err sni_tls_begin(struct sni_tls_lane *lane)
{
    const struct sn_carrier_config *config = &lane->base.carrier->config;
    const struct sn_tls_identity *identity = atomic_load(&lane->base.carrier->identity);
    SSL_CTX *ctx = lane->base.is_dialer ? sn_tls_identity_client_ctx(identity)
                                        : sn_tls_identity_server_ctx(identity);
    lane->check.trust = config->trust;
    lane->check.wall_s = wall_s;
    lane->check.arg = config->env;
    lane->ssl = SSL_new(ctx);
    BIO *bio = BIO_new(sni_tls_carrier_of(lane->base.carrier)->bio_method);
    if (lane->ssl == NULL || bio == NULL) {
        BIO_free(bio);
        sni_tls_end(lane);
        ERR_clear_error();
        return SN_ENOMEM;
    }
    BIO_set_data(bio, lane);
    BIO_set_init(bio, 1);
    SSL_set_bio(lane->ssl, bio, bio); /* takes it */
    SSL_set_read_ahead(lane->ssl, 0); /* input lies in memory: a copy ahead would be one too many */
    if (lane->base.is_dialer) {
        SSL_set_connect_state(lane->ssl);
    } else {
        SSL_set_accept_state(lane->ssl);
    }
    return sn_tls_attach_check(lane->ssl, &lane->check);
}

void sni_tls_end(struct sni_tls_lane *lane)
{
    SSL_free(lane->ssl);
    lane->ssl = NULL;
}

/* --- Why it failed ------------------------------------------------------------------------------------------- */

static void describe_times(struct sn_text *text, const struct sn_tls_check *check)
{
    int is_early = check->result == SN_ENOTYET;
    sn_text_add(text, "its certificate is valid %s ", is_early ? "from" : "until");
    sn_text_add_utc(text, is_early ? check->cert.not_before_s : check->cert.not_after_s);
    sn_text_add(text, ", the clock here says ");
    sn_text_add_utc(text, check->wall_s(check->arg));
}

static void describe_mismatch(struct sn_text *text, const struct sn_tls_check *check)
{
    if (check->expect_key != NULL && !sn_key_id_is_equal(check->expect_key, &check->key)) {
        sn_text_add(text, "its key is not the one that is expected there");
    } else if (check->has_cert && strcmp(check->cert.mesh, check->trust->mesh) != 0) {
        sn_text_add(text, "it belongs to mesh %s", check->cert.mesh);
    } else {
        sn_text_add(text, "it is %s", check->cert.agent);
        if (check->expect_agent != NULL) sn_text_add(text, ", not %s", check->expect_agent);
    }
}

/* In words, what our verifier found wrong. */
static void describe_refusal(const struct sn_tls_check *check, char *out, size_t capacity)
{
    struct sn_text text;
    sn_text_init(&text, out, capacity); /* cut is fine: names may be long */
    switch (check->result) {
    case SN_EEXPIRED:
    case SN_ENOTYET: describe_times(&text, check); break;
    case SN_EMISMATCH: describe_mismatch(&text, check); break;
    case SN_EPROTO: sn_text_add(&text, "it did not agree on the protocol sennit/1"); break;
    case SN_EUNTRUSTED:
        sn_text_add(&text, check->has_cert ? "its certificate is of an authority not trusted here"
                                           : "it has neither a certificate of a mesh nor a pin");
        break;
    case SN_EAUTH: sn_text_add(&text, "its key or a signature of its certificate is wrong"); break;
    case SN_EINVAL: sn_text_add(&text, "its certificate is malformed"); break;
    case SN_EVERSION: sn_text_add(&text, "its certificate has a form not known here"); break;
    default: sn_text_add(&text, "%s", sn_err_text(check->result)); break;
    }
}

static void note_refusal(struct sni_tls_lane *lane, enum sn_err err, const char *detail)
{
    if (lane->failure.err != SN_OK) return;
    sni_tls_note(lane, err, detail);
    lane->failure.is_refusal = 1;
    lane->failure.has_key = lane->check.has_key != 0;
    if (lane->check.has_key) lane->failure.key = lane->check.key;
    if (lane->check.has_cert) {
        memcpy(lane->failure.agent, lane->check.cert.agent, sizeof lane->failure.agent);
    }
}

/* Alerts by which a peer says that it does not like our certificate (RFC 8446 section 6.2). */
static int is_about_certificate(int alert)
{
    switch (alert) {
    case SSL_AD_BAD_CERTIFICATE:
    case SSL_AD_UNSUPPORTED_CERTIFICATE:
    case SSL_AD_CERTIFICATE_REVOKED:
    case SSL_AD_CERTIFICATE_EXPIRED:
    case SSL_AD_CERTIFICATE_UNKNOWN:
    case SSL_AD_UNKNOWN_CA:
    case SSL_AD_ACCESS_DENIED:
    case SSL_AD_DECRYPT_ERROR: /* how a wrong signature is told */
    case SSL_AD_CERTIFICATE_REQUIRED: return 1;
    default: return 0;
    }
}

/* What an alert about our certificate lets us guess. */
static enum sn_err refusal_of(int alert)
{
    switch (alert) {
    case SSL_AD_CERTIFICATE_EXPIRED: return SN_EEXPIRED;
    case SSL_AD_UNKNOWN_CA: return SN_EUNTRUSTED;
    case SSL_AD_DECRYPT_ERROR: return SN_EAUTH;
    default: return SN_EDENIED;
    }
}

static enum sn_err note_alert(struct sni_tls_lane *lane, int alert)
{
    char detail[sizeof lane->failure.detail];
    struct sn_text text;
    sn_text_init(&text, detail, sizeof detail);
    int is_refused = is_about_certificate(alert);
    sn_text_add(&text, is_refused ? "the peer refused our certificate" : "the peer gave up");
    sn_text_add(&text, " (alert %d, %s)", alert, SSL_alert_desc_string_long(alert));
    enum sn_err err = is_refused ? SN_EUNTRUSTED : SN_EPROTO;
    sni_tls_note(lane, err, detail);
    if (is_refused && lane->failure.err == err) lane->failure.refused_err = refusal_of(alert);
    return err;
}

/* Turns what OpenSSL queued into the lane's failure. */
static enum sn_err note_ssl_error(struct sni_tls_lane *lane)
{
    char detail[sizeof lane->failure.detail];
    unsigned long code = ERR_peek_error();
    int is_ssl = ERR_GET_LIB(code) == ERR_LIB_SSL;
    int reason = ERR_GET_REASON(code);
    const char *words = ERR_reason_error_string(code); /* static */
    enum sn_err verdict = lane->check.result;
    ERR_clear_error();
    if (!lane->base.is_open && verdict != SN_OK && verdict != SN_ESTATE) {
        describe_refusal(&lane->check, detail, sizeof detail);
        note_refusal(lane, verdict, detail);
        return verdict;
    }
    if (is_ssl && reason >= SSL_AD_REASON_OFFSET) {
        return note_alert(lane, reason - SSL_AD_REASON_OFFSET);
    }
    if (is_ssl && reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) {
        note_refusal(lane, SN_EUNTRUSTED, "it presented no certificate");
        return SN_EUNTRUSTED;
    }
    if (reason == ERR_R_MALLOC_FAILURE) {
        sni_tls_note(lane, SN_ENOMEM, "no memory for TLS");
        return SN_ENOMEM;
    }
    struct sn_text text;
    sn_text_init(&text, detail, sizeof detail);
    sn_text_add(&text, "not proper TLS (%s)", words == NULL ? "no reason given" : words);
    sni_tls_note(lane, SN_EPROTO, detail);
    return SN_EPROTO;
}

/* The outcome of an OpenSSL call that did not succeed. */
static enum sn_err outcome(struct sni_tls_lane *lane, int rc)
{
    switch (SSL_get_error(lane->ssl, rc)) {
    case SSL_ERROR_WANT_READ: return SN_EAGAIN;
    case SSL_ERROR_WANT_WRITE: return SN_EFULL;
    case SSL_ERROR_ZERO_RETURN: return SN_ECLOSED;
    default: return note_ssl_error(lane);
    }
}

/* Whoever else used OpenSSL on this thread may have left something; SSL_get_error would take it for ours. */
static void forget_old_errors(void)
{
    if (ERR_peek_error() != 0) ERR_clear_error();
}

/* --- Handshake and data ---------------------------------------------------------------------------------------- */

enum sn_err sni_tls_handshake(struct sni_tls_lane *lane)
{
    forget_old_errors();
    int rc = SSL_do_handshake(lane->ssl);
    if (rc != 1) {
        enum sn_err err = outcome(lane, rc);
        if (err != SN_EFULL && err != SN_ECLOSED) return err;
        sni_tls_note(lane, SN_EPROTO, "the handshake was closed or is too long");
        return SN_EPROTO;
    }
    /* The verifier ran and said yes: it is what OpenSSL asked, so anything else is a bug of ours. */
    SN_ASSERT(lane->check.result == SN_OK);
    SN_ASSERT(lane->check.has_key && lane->check.has_cert);
    lane->base.peer.id = lane->check.key;
    lane->base.peer.cert = lane->check.cert;
    memcpy(lane->base.peer.agent, lane->check.cert.agent, sizeof lane->base.peer.agent);
    return SN_OK;
}

enum sn_err sni_tls_decrypt(struct sni_tls_lane *lane, uint8_t *out, size_t capacity,
                            size_t *out_size)
{
    forget_old_errors();
    int rc = SSL_read_ex(lane->ssl, out, capacity, out_size);
    return rc == 1 ? SN_OK : outcome(lane, rc);
}

enum sn_err sni_tls_encrypt(struct sni_tls_lane *lane, const uint8_t *bytes, size_t size)
{
    SN_ASSERT(size > 0 && size <= SNI_RECORD_BYTES);
    SN_ASSERT(sni_ring_room(&lane->out) >= size + SNI_RECORD_SLACK);
    size_t put = 0;
    forget_old_errors();
    int rc = SSL_write_ex(lane->ssl, bytes, size, &put);
    if (rc == 1) {
        SN_ASSERT(put == size);
        return SN_OK;
    }
    enum sn_err err = outcome(lane, rc);
    if (lane->failure.err == SN_OK) {
        sni_tls_note(lane, err == SN_ECLOSED ? err : SN_EPROTO, "encryption failed");
    }
    return lane->failure.err;
}

void sni_tls_say_goodbye(struct sni_tls_lane *lane)
{
    if (lane->ssl == NULL || !SSL_is_init_finished(lane->ssl)) return;
    forget_old_errors();
    (void)SSL_shutdown(lane->ssl); /* 0: sent, not yet received; below: too late to say it */
    ERR_clear_error();
}

int sni_tls_has_pending(const struct sni_tls_lane *lane)
{
    return SSL_pending(lane->ssl) > 0;
}

void sni_tls_trim(struct sni_tls_lane *lane)
{
    (void)SSL_free_buffers(lane->ssl); /* 0: some are in use, and stay */
}

/* --- The carrier ----------------------------------------------------------------------------------------------- */

static enum sn_err lane_exporter(struct sn_lane *base, uint8_t out[32])
{
    struct sni_tls_lane *lane = sni_tls_lane_of(base);
    if (!base->is_open || lane->ssl == NULL) return SN_ESTATE;
    return sn_tls_exporter(lane->ssl, out);
}

static void carrier_free(struct sn_carrier *base)
{
    struct sni_tls_carrier *carrier = sni_tls_carrier_of(base);
    SN_ASSERT(carrier->magic == CARRIER_MAGIC);
    SN_ASSERT(carrier->listener_count == 0);
    SN_ASSERT(carrier->unfinished_count == 0);
    BIO_meth_free(carrier->bio_method);
    carrier->magic = 0;
    sn_free(carrier, sizeof *carrier);
}

static const struct sn_carrier_ops ops = {
    .name = "tls",
    .free = carrier_free,
    .listen = sni_tls_listen,
    .listener_close = sni_tls_listener_close,
    .dial = sni_tls_dial,
    .lane_read = sni_tls_lane_read,
    .lane_write = sni_tls_lane_write,
    .lane_flush = sni_tls_lane_flush,
    .lane_write_room = sni_tls_lane_write_room,
    .lane_resume_read = sni_tls_lane_resume_read,
    .lane_exporter = lane_exporter,
    .lane_close = sni_tls_lane_close,
    .lane_free = sni_tls_lane_free,
    .lane_set_priority = sni_tls_lane_set_priority,
    .lane_detach = sni_tls_lane_detach,
    .lane_attach = sni_tls_lane_attach,
};

enum sn_err sn_carrier_tls_new(const struct sn_carrier_config *config,
                               struct sn_carrier **out_carrier)
{
    SN_ASSERT(config != NULL && out_carrier != NULL);
    SN_ASSERT(config->env != NULL && config->identity != NULL && config->trust != NULL);
    SN_ASSERT(config->handshakes_max > 0 && config->handshakes_per_address_max > 0);
    SN_ASSERT(config->handshake_timeout_ms > 0);
    struct sni_tls_carrier *carrier = sn_alloc(sizeof *carrier);
    if (carrier == NULL) return SN_ENOMEM;
    carrier->base.ops = &ops;
    carrier->base.config = *config;
    atomic_init(&carrier->base.identity, config->identity);
    carrier->magic = CARRIER_MAGIC;
    sn_list_init(&carrier->unfinished);
    carrier->bio_method = make_bio_method();
    if (carrier->bio_method == NULL) {
        ERR_clear_error();
        sn_free(carrier, sizeof *carrier);
        return SN_ENOMEM;
    }
    *out_carrier = &carrier->base;
    return SN_OK;
}
