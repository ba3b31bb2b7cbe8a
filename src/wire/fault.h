/* fault: an error as S3 clients read it: a code, a sentence, and the extra elements of
 * the <Error> document.
 *
 * The parsers of this room fill one where S3 prescribes code and wording (a wrong
 * signature, a bad range, a checksum that differs), and api/s3 renders it; codes that no
 * parser raises stand in the table as well, so that there is one table. Returned `enum
 * err` and the fault's code always agree in HTTP status class.
 *
 * Memory: a fault borrows the values of `extra` from the request or from the arena the
 * parser was given.
 */
#pragma once
#include "base/err.h"
#include "base/span.h"

/* X(code, HTTP status, the sentence where the caller has none of its own) */
#define S3_CODE_TABLE(X)                                                                 \
    X(AccessControlListNotSupported, 400, "The bucket does not allow ACLs")              \
    X(AccessDenied, 403, "Access Denied")                                                \
    X(AccessForbidden, 403,                                                              \
      "CORSResponse: This CORS request is not allowed. This is usually because the "     \
      "evalution of Origin, request method / Access-Control-Request-Method or "          \
      "Access-Control-Request-Headers are not whitelisted by the resource's CORS spec.") \
    X(AuthorizationHeaderMalformed, 400, "The authorization header is malformed")        \
    X(AuthorizationQueryParametersError, 400,                                            \
      "The authorization parameters are malformed")                                      \
    X(BadDigest, 400, "The digest you specified did not match what was received")        \
    X(BadRequest, 400, "Bad Request")                                                    \
    X(BucketAlreadyExists, 409,                                                          \
      "The requested bucket name is not available. The bucket namespace is shared by "   \
      "all users of the system. Please select a different name and try again.")          \
    X(BucketAlreadyOwnedByYou, 409,                                                      \
      "Your previous request to create the named bucket succeeded and you already own "  \
      "it.")                                                                             \
    X(BucketNotEmpty, 409, "The bucket you tried to delete is not empty")                \
    X(ConditionalRequestConflict, 409,                                                   \
      "The conditional request cannot succeed due to a conflicting operation against "   \
      "this resource.")                                                                  \
    X(EntityTooLarge, 400, "Your proposed upload exceeds the maximum allowed size")      \
    X(EntityTooSmall, 400,                                                               \
      "Your proposed upload is smaller than the minimum allowed size")                   \
    X(ExpiredToken, 400, "The provided token has expired.")                              \
    X(IllegalLocationConstraintException, 400,                                           \
      "The location constraint is not served here")                                      \
    X(IllegalVersioningConfigurationException, 400,                                      \
      "The Versioning element must be specified")                                        \
    X(IncompleteBody, 400,                                                               \
      "You did not provide the number of bytes specified by the Content-Length HTTP "    \
      "header")                                                                          \
    X(InternalError, 500, "We encountered an internal error. Please try again.")         \
    X(InvalidAccessKeyId, 403,                                                           \
      "The AWS Access Key Id you provided does not exist in our records.")               \
    X(InvalidArgument, 400, "Invalid Argument")                                          \
    X(InvalidBucketAclWithObjectOwnership, 400,                                          \
      "Bucket cannot have ACLs set with ObjectOwnership's BucketOwnerEnforced setting")  \
    X(InvalidBucketName, 400, "The specified bucket is not valid.")                      \
    X(InvalidBucketState, 409,                                                           \
      "The request is not valid with the current state of the bucket")                   \
    X(InvalidDigest, 400, "The Content-MD5 you specified was invalid.")                  \
    X(InvalidLocationConstraint, 400, "The specified location constraint is not valid")  \
    X(InvalidPart, 400,                                                                  \
      "One or more of the specified parts could not be found. The part may not have "    \
      "been uploaded, or the specified entity tag may not match the part's entity tag.") \
    X(InvalidPartNumber, 416, "The requested partnumber is not satisfiable")             \
    X(InvalidPartOrder, 400,                                                             \
      "The list of parts was not in ascending order. Parts must be ordered by part "     \
      "number.")                                                                         \
    X(InvalidPolicyDocument, 400,                                                        \
      "The content of the form does not meet the conditions specified in the policy "    \
      "document.")                                                                       \
    X(InvalidRange, 416, "The requested range is not satisfiable")                       \
    X(InvalidRequest, 400, "Invalid Request")                                            \
    X(InvalidStorageClass, 400, "The storage class you specified is not valid")          \
    X(InvalidTag, 400, "The tag provided was not a valid tag.")                          \
    X(InvalidToken, 400, "The provided token is malformed or otherwise invalid.")        \
    X(InvalidURI, 400, "Couldn't parse the specified URI.")                              \
    X(KeyTooLongError, 400, "Your key is too long")                                      \
    X(MalformedACLError, 400,                                                            \
      "The XML you provided was not well-formed or did not validate against our "        \
      "published schema")                                                                \
    X(MalformedPolicy, 400, "This policy contains invalid Json")                         \
    X(MalformedPOSTRequest, 400,                                                         \
      "The body of your POST request is not well-formed multipart/form-data.")           \
    X(MalformedTrailerError, 400,                                                        \
      "The request contained trailing data that was not well-formed")                    \
    X(MalformedXML, 400,                                                                 \
      "The XML you provided was not well-formed or did not validate against our "        \
      "published schema")                                                                \
    X(MaxMessageLengthExceeded, 400, "Your request was too big.")                        \
    X(MaxPostPreDataLengthExceededError, 400,                                            \
      "Your POST request fields preceding the upload file were too large.")              \
    X(MetadataTooLarge, 400,                                                             \
      "Your metadata headers exceed the maximum allowed metadata size")                  \
    X(MethodNotAllowed, 405,                                                             \
      "The specified method is not allowed against this resource.")                      \
    X(MissingSecurityHeader, 400, "Your request was missing a required header.")         \
    X(MissingContentLength, 411, "You must provide the Content-Length HTTP header.")     \
    X(NoSuchBucket, 404, "The specified bucket does not exist")                          \
    X(NoSuchBucketPolicy, 404, "The bucket policy does not exist")                       \
    X(NoSuchCORSConfiguration, 404, "The CORS configuration does not exist")             \
    X(NoSuchKey, 404, "The specified key does not exist.")                               \
    X(NoSuchLifecycleConfiguration, 404, "The lifecycle configuration does not exist")   \
    X(NoSuchTagSet, 404, "The TagSet does not exist")                                    \
    X(NoSuchUpload, 404,                                                                 \
      "The specified upload does not exist. The upload ID may be invalid, or the "       \
      "upload may have been aborted or completed.")                                      \
    X(NoSuchVersion, 404, "The specified version does not exist.")                       \
    X(NoSuchWebsiteConfiguration, 404,                                                   \
      "The specified bucket does not have a website configuration")                      \
    X(NotImplemented, 501,                                                               \
      "A header you provided implies functionality that is not implemented")             \
    X(NotModified, 304, "Not Modified")                                                  \
    X(ObjectLockConfigurationNotFoundError, 404,                                         \
      "Object Lock configuration does not exist for this bucket")                        \
    X(OperationAborted, 409,                                                             \
      "A conflicting conditional operation is currently in progress against this "       \
      "resource. Please try again.")                                                     \
    X(OwnershipControlsNotFoundError, 404,                                               \
      "The bucket ownership controls were not found")                                    \
    X(PreconditionFailed, 412,                                                           \
      "At least one of the pre-conditions you specified did not hold")                   \
    X(QuotaExceeded, 403, "The bucket's quota is reached")                               \
    X(InsufficientStorage, 507, "There is no room for this object")                      \
    X(ReplicationConfigurationNotFoundError, 404,                                        \
      "The replication configuration was not found")                                     \
    X(RequestHeaderSectionTooLarge, 400,                                                 \
      "Your request header section exceeds the maximum size")                            \
    X(RequestTimeTooSkewed, 403,                                                         \
      "The difference between the request time and the current time is too large.")      \
    X(RequestTimeout, 400,                                                               \
      "Your socket connection to the server was not read from or written to within the " \
      "timeout period.")                                                                 \
    X(ServerSideEncryptionConfigurationNotFoundError, 404,                               \
      "The server side encryption configuration was not found")                          \
    X(NoSuchPublicAccessBlockConfiguration, 404,                                         \
      "The public access block configuration was not found")                             \
    X(ServiceUnavailable, 503, "Please reduce your request rate.")                       \
    X(SignatureDoesNotMatch, 403,                                                        \
      "The request signature we calculated does not match the signature you provided. "  \
      "Check your key and signing method.")                                              \
    X(SlowDown, 503, "Please reduce your request rate.")                                 \
    X(UnresolvableGrantByEmailAddress, 400,                                              \
      "The email address you provided does not match any account on record.")            \
    X(XAmzContentSHA256Mismatch, 400,                                                    \
      "The provided 'x-amz-content-sha256' header does not match what was computed.")

enum s3_code {
    S3_OK,
#define X(code, status, message) S3_##code,
    S3_CODE_TABLE(X)
#undef X
        S3_CODE_COUNT_
};

const char *s3_code_name(enum s3_code code);    /* "AccessDenied"; "" for S3_OK */
int s3_code_status(enum s3_code code);          /* 403; 200 for S3_OK */
const char *s3_code_message(enum s3_code code); /* the table's sentence */
enum err s3_code_err(enum s3_code code);        /* the nearest of base/err.h */

#define FAULT_EXTRA_MAX 8
struct fault {
    enum s3_code code;
    char message[384]; /* one sentence; may quote raw bytes: escape it when rendering */
    unsigned extra_count;
    struct {
        const char *name; /* of the XML element; static */
        struct span value;
    } extra[FAULT_EXTRA_MAX];
};

/* Sets code and sentence, drops what stood there, returns s3_code_err(code). A NULL
 * format takes the table's sentence. `f` may be NULL. */
enum err fault_set(struct fault *f, enum s3_code code, const char *fmt, ...) PRINTF(3, 4);
/* One more element; `value` is borrowed. Beyond FAULT_EXTRA_MAX it is an error of the
 * programmer. */
void fault_add(struct fault *f, const char *name, struct span value);
/* InvalidArgument with <ArgumentName> and <ArgumentValue>. */
enum err fault_argument(struct fault *f, const char *name, struct span value,
                        const char *fmt, ...) PRINTF(4, 5);
