"""Words and letters that distinguish languages: function words, words of requests, letters.

Short lists of our own, most frequent words first; no list is complete or needs to be.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType


def _words(lists: Mapping[str, str]) -> Mapping[str, frozenset[str]]:
    return MappingProxyType({language: frozenset(text.split()) for language, text in lists.items()})


FUNCTION_WORDS = _words(
    {
        "en": """a about after all also am an and any are as at be because been before being but by
            can could did do does doing don each else etc for from had has have having he her here
            hers him his how i if in into is it its itself just let may me might more most must my
            no nor not of off on once only or other our ours out over own please s same shall she
            should so some such t than that the their theirs them then there these they this those
            through to too under until up us very was we were what when where which while who whom
            why will with would you your yours""",
        "es": """a al algo ante antes así aunque cada como cómo con cual cuál cualquier cuando
            cuándo de del desde después donde dónde dos e el él ella ellos en entre era eran es esa
            ese eso esta está están estas este esto estos fue ha han hasta hay la las le les lo los
            más me mediante mi mientras mis muy ni no nos nuestra nuestro o otra otro para pero por
            porque puede pueden que qué quien se sea sean según ser si sí siempre sin sobre solo son
            su sus también tan te tiene tienen toda todas todo todos tu tus un una unas uno unos
            usted y ya yo""",
        "pt": """a ainda ante antes ao aos apenas aquele as até cada com como da das de dela dele
            deles depois desde deve do dos e é ela elas ele eles em entre era essa esse esta está
            estão este eu foi for foram há isso isto já lhe mais mas me mesmo meu minha muito na nas
            não nem no nos nós nossa nosso num numa o onde os ou para pela pelas pelo pelos pode
            podem por porque quais qual quando que quem são se seja sem sempre ser seu seus sob
            sobre sua suas também te tem têm todas todo todos tudo um uma umas uns você""",
        "fr": """a à afin ainsi alors après au aucun aussi autre autres aux avant avec c car ce cela
            ces cet cette chaque chez comme comment d dans de depuis des dont du elle elles en entre
            est et été être eux fait il ils j je jusqu l la le les leur leurs lors lorsque lui m ma
            mais me même mes moi mon n ne ni nos notre nous on ont ou où par pas pendant peut
            peuvent plus pour pourquoi qu quand que quel quelle quelles quels qui quoi s sa sans se
            selon ses si son sont sous sur ta te tes toi ton tous tout toute toutes très tu un une
            vers vos votre vous y""",
        "it": """a ad agli ai al alla alle allo anche ancora c che chi ci come con cosa cui d da dai
            dal dalla dalle degli dei del dell della delle dello di dopo dove due e è ed era essere
            fra già gli ha hanno i il in io l la le lei li lo loro lui ma me mentre mi mio molto ne
            negli nei nel nell nella nelle noi non nostro o ogni per perché più poi prima puoi può
            quale quali quando quella quelle quello questa queste questi questo qui se sei senza si
            sia siano solo sono sopra su sua sue sugli sui sul sull sulla suo suoi te ti tra tu tua
            tuo tutte tutti tutto un una uno vi""",
        "ca": """a al als amb això aquest aquesta aquests com d de del dels des el els en és està
            són fer hi ho i l la les més molt no o on pel pels per però què quan que s sense ser si
            sobre també té tots un una uns""",
        "ro": """a acest această aceste al ale asupra au ca care când ce cea cel cele cu cum când
            dacă dar de decât din după ea ei el este eu fără fi fie fiecare în între la le lor mai
            mult nu o pe pentru poate prin sa sau să se sub sunt și spre toate tot un unde unei unui
            va""",
        "de": """aber alle allem allen aller alles als also am an andere anderen auch auf aus bei
            beim bin bis bitte da dabei damit dann das dass dein deine dem den denn der des dich die
            dies diese diesem diesen dieser dieses dir doch dort du durch ein eine einem einen einer
            eines er es etwa euch für gegen hat haben hier ich ihm ihn ihr ihre ihren im in ist ja
            jede jeden jeder jedes kann kein keine können man mein meine mich mir mit muss nach
            nicht noch nun nur ob oder ohne sein seine seinen sehr sich sie sind so sollte sondern
            soll sowie über um und uns unser unter vom von vor war warum was wenn werden wie wir
            wird wo wurde zu zum zur zwischen""",
        "nl": """aan al alle als alleen bij dan dat de deze die dit door doen een elk elke en er ge
            geen haar heb hebben heeft hem het hij hoe hun ik in is je jij jouw kan kun kunnen maar
            me meer met mijn moet na naar niet nog nu of om omdat onder ons onze ook op over te
            tegen tot tussen u uit uw van veel voor waar wanneer waren was wat we welke werd wie wij
            worden wordt zal ze zich zij zijn zo zoals zonder zou""",
        "sv": """alla allt att av bara blev bli blir de dem den denna deras dess det detta dig din
            du efter ej eller en ett från för genom ha har hur här i icke in inte jag kan man med
            mellan men mig min mot mycket ni nog nu när och också om oss på samt sedan sig sin ska
            skall som till under upp ut utan vad var vara vid vilka vilken är än över""",
        "da": """af alle at blev blive bliver da de dem den denne der deres det dette dig din du
            efter eller en end er et for fra få gennem har have hos hun hvad hvis hvor hvordan
            hvornår i ikke ind jeg kan med mellem men mig min mod må ned når nogle nu og også om op
            os over på samt sig skal som så til ud uden under var ved vi vil være""",
        "no": """av alle at ble bli blir de dem den denne der deres det dette din du eller en enn er
            et etter for fra før gjennom ha har hos hun hva hvis hvor hvordan hvorfor i ikke inn jeg
            kan med mellom men mot må ned når noen nå og også om opp oss over på samt seg skal som
            så til under ut uten var ved vi vil være""",
        "fi": """ei eivät että hän he ja jo joita joka jokin jos jossa jota kaikki kanssa koko koska
            kuin kuinka kun kunnes me mikä miksi missä mitä miten mukaan mutta myös ne niiden niin
            nämä olet oli olla on ovat saa se sekä sen siitä sinä sitä sitten tai tämä tämän tässä
            te tulee vai vain vaikka voi voidaan voit yli""",
        "pl": """aby albo ale bez był była było być by czy dla do dlatego gdy gdzie go i ich inne
            ile jak jaki jakie jako jego jej jest jeśli każdy która które którego których który
            kiedy lub ma mi może można mój na nad nie niż o od on oraz po pod podczas ponieważ przed
            przez przy się są swój ta tak także tam te tego tej ten to tylko tym w we więc wszystko
            wszystkie z za ze że żeby""",
        "cs": """aby ale ani až bez být by byl byla bylo co což či do i jak jako je jeho jejich její
            jen jsem jsou již k kde kdy když která které který mezi mi může na nad nebo než o od po
            pod podle pokud pouze pro proč proto před při s se si své ta tak také ten tento to tomu
            toto u v ve více však vše všechny z za ze že""",
        "hu": """a az egy és hogy nem is ez ezt azt ha csak már még meg mint vagy de el volt van
            lehet amely ami aki minden után között szerint valamint pedig illetve kell hogyan miért
            mit akkor során által ezek azok nincs""",
        "tr": """acaba ama ancak az bana bazı belki ben bir biz böyle bu buna bunlar bunu bütün çok
            çünkü da daha de değil diye eğer en gibi hangi hem hep her hiç için ile ise kadar kendi
            ki kim mı mi mu mü nasıl ne neden nerede o olan olarak oldu olduğu olsun olur onlar onu
            sen siz sonra şey şu tüm üzere üzerinde var ve veya ya yani yok""",
        "vi": """bạn bị bởi các cái cần cho chỉ có còn của cùng cũng đã đang để đến đều đó được gì
            giữa hãy hoặc hơn khi không là làm lại lên mà mình mỗi một muốn nào này nếu như nhưng
            những nơi phải qua ra rất rồi sau sẽ tại theo thì tôi trên trong trước từ và vào vẫn về
            vì với""",
        "id": """ada adalah agar akan anda antara apa atau bagaimana bagi bahwa baik belum bisa buat
            dalam dan dapat dari dengan di hanya harus ini itu jika juga kami kamu karena ke kepada
            ketika kita lain lebih mana melalui mereka namun oleh pada para perlu saat saja sangat
            saya sebagai sebelum sebuah secara sedang semua seperti serta setelah setiap sudah
            supaya tanpa telah tentang terhadap tersebut tetapi tidak untuk yang""",
        "ru": """а без более будет будут бы был была были было быть в вам вас ваш весь во вот все
            всех всё вы где для до его ее её если есть еще ещё же за и из или им их к как какие
            какой когда которая которого которой которые который которых кто ли либо между меня мне
            может можно мой мы на над надо нам нас не него нее нет ни но ну о об он она они оно от
            перед по под пожалуйста после при про с свой себя со так также такие такой там тебе тем
            то того тоже только том ты у уже чем через что чтобы эта эти это этого этой этом этот
            я""",
        "uk": """або але без більше був була були було бути в вам вас ваш ви від він вона вони все
            всі де для до його її їх за зі з і із й як яка яке який які якщо коли між мені може
            можна мій ми на над не ні ну о об після перед по під при про саме свій себе та так такий
            також там те ти тільки то того тому у уже хто це цей ця ці цього через чи що щоб є я""",
        "bg": """а ако без беше бъде в ви все във да до за защо и из или им има как като когато
            което който която които ли между ме може много му на над най не него ни но от по под при
            през с са само се си след със така тази те този тези това той тя у че ще""",
        "sr": """а ако али би био бити већ за и из или има је још као када како која које који кроз
            међу може на након над не него него од од они по под пре при са само се сам си сте су та
            тако то у уз шта што ће""",
        "hi": """अगर अपना अपनी अपने आप इन इस इसका इसकी इसके उन उनके उस उसके एक और कब कर करता करते
            करना करने करें का कि किया किस किसी की कुछ के केवल कैसे को कौन क्या क्यों जब जहाँ जा जाता
            जैसे जो तक तब तो था थी थे द्वारा नहीं ने पर फिर बाद भी मुझे में मेरा मेरी मेरे मैं यदि
            यह या ये लिए लेकिन वह वाला वाली वाले वे सकता सकते सभी साथ से हम ही हुआ हुई हूँ है हैं हो
            होता होती होने""",
        "mr": """आणि आहे आहेत आम्ही कसे का किंवा की च चा ची चे जर तर ते तो त्या नाही पण मध्ये मला मी
            या व साठी हा ही हे होते""",
        "ne": """अनि आफ्नो के को छ छन् छैन गर्न गर्ने गर्नुहोस् तपाईं थियो पनि भने भन्ने मलाई मा यो
            र लाई लागि लाग""",
        "ar": """أحد إذا أمام أن أنا أنت أنه أو أي أين إلى إلا إن أيضا أيضاً بدون بعد بعض بل بين تحت
            تكون تلك ثم جميع حتى حول حيث خلال دون ذلك عبر عن عند عندما على غير في فقط قبل قد كان
            كانت كل كما كيف لا لأن لدي لدى لكن لم لماذا لن له لها لي ما ماذا مثل مع من منذ نحو نعم
            هذا هذه هل هم هنا هناك هو هي و وقد وهو وهي يا يتم يمكن يكون""",
        "fa": """آن آنها ابن اگر از است اما ای این با باید بر برای به بود بین پس تا تر چه چرا چگونه
            خود در دارد را روی شد شده شود کرد کردن کنم کند کنید که ما من می نیز نیست ها های هر هم
            همه هیچ و یا یک""",
        "ur": """اس اسے اگر ان اور ایک بھی پر تک تھا جو سے کا کر کرنا کرنے کریں کو کہ کی کیا کیسے کے
            لیے میں نہیں نے وہ ہم ہو ہے ہیں یا یہ""",
    }
)
"""Words that carry no topic, by language; an index of each leaves its own out."""

REQUEST_WORDS = _words(
    {
        "en": """ad add agent ai al api app ask automation best build café change chart check ci
            code come command con convert create data database design die documentation documents
            download ed email error eu example file files find fix format generate get guide hat
            help helper image images install into line list make manage man model name need new old
            pages pas per plan project query read report résumé review run script search send server
            service set show si skill skills son su system tag tags task test text tool tools
            translate update use used user users using van video want war web work workflow
            write""",
        "es": """archivo archivos actualizar análisis analizar aplicación ayuda añadir base buscar
            cambiar código correo convertir corregir crear crea datos desarrollo descargar diseño
            diseñar documentos documento ejemplo enviar escribir generar gestión hacer imagen
            imágenes informe leer mensaje necesito proyecto prueba pruebas quiero página resumen
            revisar tareas texto traducir usar usuario""",
        "pt": """ajuda analisar análise aplicativo arquivo arquivos atualizar baixar banco buscar
            código converter corrigir criar cria dados desenvolvimento documento documentos enviar
            escrever exemplo fazer gerar gestão imagem imagens ler mensagem mudar página preciso
            projeto quero relatório resumo revisar tarefas teste testes texto traduzir usar
            usuário""",
        "fr": """ajouter aide analyser application base besoin chercher code convertir corriger
            créer document documents données développement écrire envoyer exemple faire fichier
            fichiers générer gestion image images lire logiciel mettre outil projet rapport
            rechercher rédiger résumé tâche tâches texte traduire utiliser utilisateur vérifier
            veux""",
        "it": """aggiornare aggiungere aiuto analizzare analisi applicazione cercare codice
            convertire correggere creare crea dati documento documenti esempio fare generare
            gestione immagine immagini inviare leggere lista messaggio modificare progetto
            riassumere scaricare scrivere sviluppo testo tradurre utente utilizzare verificare
            voglio""",
        "de": """analysieren anwendung benutzer bild bilder datei dateien daten erstelle erstellen
            entwicklung fehler finden hilfe lesen machen nachricht neue prüfen programm projekt
            schreiben senden suchen tabelle testen umwandeln verwalten verwenden zusammenfassen
            zusammenfassung übersetzen ändern""",
        "nl": """aanmaken afbeelding bestand bestanden gebruiken gebruiker gegevens hulp lezen maak
            maken ontwikkeling samenvatten schrijven toevoegen vertalen versturen voorbeeld wijzigen
            zoeken""",
        "pl": """analiza błędy dane dodać edytować kod napisać napisz narzędzie obraz plik pliki
            plików pobrać pomoc projekt przetłumaczyć sprawdź sprawdzić stwórz stworzyć szukać testy
            tekst tworzenie użytkownik utworzyć wysłać wygeneruj zmienić""",
        "tr": """analiz belge bul çevir çevirmek değiştir dosya dosyaları dosyası düzenle ekle
            gönder hazırla kod kullan kullanarak kullanıcı metin oku oluştur oluşturma oluşturmak
            özet proje resim sil test veri verileri yap yapmak yardım yaz yazmak""",
        "vi": """ảnh bài bản báo chạy dịch dụng dữ liệu hình kiểm mã ngữ sửa tạo tệp thử tiếng tìm
            tóm viết văn""",
        "id": """aplikasi bahasa baca berkas buatkan cari contoh dokumen gambar hapus kirim kode
            kesalahan laporan membuat mencari mengirim mengubah menerjemahkan menulis menggunakan
            pengguna penggunaan perbaiki ringkasan terjemahkan tulis ubah uji""",
        "sv": """använda användare bild data fil filer göra hjälp hitta läsa lägg projekt skapa
            skicka skriva söka uppdatera ändra översätta""",
        "da": """billede bruge bruger fil filer finde hjælp lave læse oprette oversætte sende skrive
            søge ændre""",
        "no": """bilde bruke bruker fil filer finne hjelp lage lese opprette oversette sende skrive
            søke endre""",
        "fi": """auta etsi hae kirjoita koodi käyttäjä käännä kuva lähetä lisää lue luo luominen
            muokkaa tarkista teksti tiedosto tiedostot""",
        "cs": """chyby data hledat kód napsat nápověda obrázek odeslat přečíst přeložit přidat
            projekt soubor soubory testy upravit uživatel vytvořit změnit""",
        "ro": """adaugă ajutor caută cod creare creează date document fișier fișiere generează
            imagine proiect scrie text traduce trimite utilizator""",
        "hu": """adatok fájl fájlok fordítás hiba írás kép keresés kód készítése küldés létrehozás
            segítség szöveg""",
    }
)
"""Words of requests: they show the language of a short query without function words. The
English list also has the words of others that English has too, so that they prove nothing."""

TELLING_LETTERS: Mapping[str, str] = MappingProxyType(
    {
        "es": "ñ",
        "pt": "ãõç",
        "fr": "âœèêôûç",
        "de": "ßäöü",
        "sv": "åäö",
        "da": "æøå",
        "no": "æøå",
        "fi": "äö",
        "pl": "ąęłńśźż",
        "cs": "ěřůčšž",
        "ro": "ăâîșțşţ",
        "hu": "őűö",
        "tr": "ığşçöü",
        "vi": "ăâđêôơưạảấầẩẫậắằẳẵặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹ",
        "uk": "іїєґ",
        "sr": "ђјљњћџ",
        "fa": "پچژگکی",
        "ur": "ٹڈڑںےھہ",
    }
)
"""Letters by the languages that use them; a word with one speaks for each of its languages."""

TELLING_ENDINGS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "es": ("ción", "ciones"),
        "pt": ("ção", "ções"),
        "it": ("zione", "zioni"),
        "de": ("keit", "ierung", "ungen", "ieren"),
        "pl": ("ować", "ości"),
        "tr": ("ları", "leri", "mak", "mek"),
        "nl": ("heid",),
    }
)
"""Endings that no English word has."""
