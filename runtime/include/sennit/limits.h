/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every fixed limit of Sennit, with the reason for its value. Limits size pools and queues; a limit
 * that an operator may change is a configuration key whose default stands here.
 */
#ifndef SN_LIMITS_H
#define SN_LIMITS_H

/* Names. A site or agent label is a DNS label, so that names can appear in DNS and file names. */
#define SN_LABEL_BYTES_MAX      63
#define SN_AGENT_NAME_BYTES_MAX 127 /* site/agent */
#define SN_ADDR_BYTES_MAX       191 /* site/agent:actor */
#define SN_TYPE_BYTES_MAX       63  /* message type, for example echo.say */
#define SN_MESH_BYTES_MAX       63
#define SN_ROLES_MAX            16 /* per certificate; bounds the time of an authorization check */

/* Buffers. One read fills a slab; 256 KiB is where system-call cost stops mattering. */
#define SN_SLAB_BYTES_MAX (256u * 1024u)
#define SN_HEADROOM_MAX   256u

/* Messages and parcels (DESIGN section 7). */
#define SN_MESSAGE_BYTES_MAX      (192u * 1024u) /* payload; larger things are streams */
#define SN_PARCEL_BYTES_MAX       (256u * 1024u) /* header, sealed body and signature together */
#define SN_MESSAGE_COPY_BYTES_MAX 4096u /* below this a payload is copied, never pins a slab */
#define SN_MSGPACK_DEPTH_MAX      8

/* Actors. */
#define SN_ACTORS_MAX                4096u
#define SN_MAILBOX_DEFAULT           1024u
#define SN_MAILBOX_MAX               65536u
#define SN_OUTSTANDING_SENDS_DEFAULT 1024u /* reserved completion slots of one actor */
#define SN_ASKS_MAX                  4096u /* unanswered questions of one agent */
#define SN_TIMERS_PER_ACTOR_MAX      4096u
#define SN_SEND_DEADLINE_MS                                                                        \
    60000u /* a message whose sender names no deadline: long enough for a reboot */

/* Delivery, per peer and class. */
#define SN_DELIVERY_QUEUE_BYTES    (64u * 1024u * 1024u)
#define SN_DELIVERY_QUEUE_MESSAGES 65536u
#define SN_DELIVERY_WINDOW_BYTES   (4u * 1024u * 1024u) /* parcels sent and not acknowledged */
#define SN_DELIVERY_HANDLES_MAX    4096u

/* Streams, per peer. */
#define SN_STREAMS_MAX           65536u
#define SN_STREAM_WINDOW_BYTES   (4u * 1024u * 1024u)
#define SN_STREAM_META_BYTES_MAX 1024u
#define SN_STREAM_QUEUED_BYTES   (1024u * 1024u) /* written by an actor, not taken by the stream */
#define SN_SERVICE_BYTES_MAX     31u

/* Carriers (DESIGN section 6). */
#define SN_HANDSHAKES_MAX             64u
#define SN_HANDSHAKES_PER_ADDRESS_MAX 8u
#define SN_HANDSHAKE_TIMEOUT_MS       5000u
#define SN_HELLO_BYTES_MAX            8192u
#define SN_CERT_BYTES_MAX             2048u

/* Peers. Refused strangers are remembered for `sennit peers`, the oldest one makes room. */
#define SN_PEERS_MAX   4096u
#define SN_REFUSED_MAX 64u
#define SN_LINKS_MAX   256u

/* Configuration files. A fleet of 1,000 agents is about 200 KiB. */
#define SN_CONFIG_BYTES_MAX    (4u * 1024u * 1024u)
#define SN_CONFIG_NODES_MAX    262144u
#define SN_CONFIG_DEPTH_MAX    16u
#define SN_CONFIG_FINDINGS_MAX 100u

/* Control socket. */
#define SN_CONTROL_CLIENTS_MAX       16u
#define SN_CONTROL_REQUEST_BYTES_MAX (256u * 1024u)
#define SN_CONTROL_REPLY_BYTES_MAX   (16u * 1024u * 1024u)

/* Files read whole (keys, certificates). */
#define SN_KEY_FILE_BYTES_MAX 4096u

#endif
